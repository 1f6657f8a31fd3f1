// Package encoders has the text encoders, in which every token sees all others, a file a family: BERT and those that
// are written after it, DeBERTa and ModernBERT.
package encoders
