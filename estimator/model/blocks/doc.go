// Package blocks is what families are built of: the decoder that most of them depart from (Decoder, and Traits, which
// say in what they do), the masks and positions of transformers, attention with rotary positions in a part of every
// head, mixtures of experts that run one after the other or as grouped products, and what text encoders share around
// their layers.
package blocks
