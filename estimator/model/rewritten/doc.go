// Package rewritten has the models that training libraries write in a way of their own: litgpt, torchtune, torchtitan
// and Megatron-LM. Each of them takes an Architecture that a family has read, says whether it has one like it
// (WriteAs…), and declares modules of its own in place of the family's (arch.Library).
package rewritten
