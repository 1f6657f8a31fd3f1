// Package assistant serves the Model Context Protocol (modelcontextprotocol.io): tools that assistants call to hear
// what a training job takes, and prompts that begin such a conversation.
//
// A tool asks the HTTP API, of this process or of a service, and nothing else: limits, checks, answers and errors are
// those of its routes. What it adds is brevity: a verdict, the bytes, what holds them, three ways out, what was
// assumed and what is in doubt, in [MostCharacters] at most. Every tool with a long answer gives all of it where it is
// asked for the whole.
//
// Start at [New]; tools.go has the table of tools.
package assistant
