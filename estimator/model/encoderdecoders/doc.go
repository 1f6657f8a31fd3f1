// Package encoderdecoders has the models of two stacks: T5, BART and Whisper.
package encoderdecoders
