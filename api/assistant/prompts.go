package assistant

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addPrompts adds what users begin with.
func addPrompts(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{Name: "will_it_fit", Title: "Will it fit?",
		Description: "Whether a training job fits on a card, and what to change where it does not.",
		Arguments: []*mcp.PromptArgument{
			{Name: "model", Description: "The model, such as Llama-3.1-8B or gpt2", Required: true},
			{Name: "gpu", Description: "The card, such as RTX 4090 or A100 80GB", Required: true},
			{Name: "training", Description: "What is known of the training: batch, sequence length, LoRA, optimizer, trainer, or the command line that starts it"},
		}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		a := r.Params.Arguments
		return said("Will this training fit? Model: " + a["model"] + ". Card: " + a["gpu"] + ". Training: " + or(a["training"],
			"micro-batch of 1, the rest by default") + ".\n\nUse vramplan's tools and no rule of thumb. Where there is a command " +
			"line or a configuration, call read with it and take its job; else put the job together, and use find_model and " +
			"find_gpu where a name is not known. Call estimate. Answer with the verdict, the bytes it needs and the card's, " +
			"what holds most, and what was assumed that the user may know better; where it does not fit, with the first ways " +
			"out and whether they change the result of training."), nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "explain_error", Title: "Explain this error",
		Description: "What an out-of-memory message means and what helps.",
		Arguments: []*mcp.PromptArgument{
			{Name: "error", Description: "The message with its traceback, as it was printed", Required: true},
			{Name: "training", Description: "What ran: a command line, a configuration, or words"},
		}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		a := r.Params.Arguments
		return said("Explain this error and say what to change.\n\n" + a["error"] + "\n\nWhat ran: " + or(a["training"], "not known") +
			".\n\nUse vramplan's tools and no rule of thumb. Where the training is known, make its job (read, or by hand). Call " +
			"diagnose with the text and the job. Answer with what asked for the memory and how sure that is, what helps, and " +
			"what looks like a help and is none."), nil
	})
}

func said(text string) *mcp.GetPromptResult {
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}
}

func or(given, otherwise string) string {
	if given = strings.TrimSpace(given); given == "" {
		return otherwise
	}
	return given
}
