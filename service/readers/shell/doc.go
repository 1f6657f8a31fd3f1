// Package shell tells which commands a shell script runs, and with which words, without running anything.  [Read]
// walks a script as bash would and yields its simple commands in order. Whatever bash would only know while it runs
// is marked as such and never guessed:  script, err := shell.Read(ctx, shell.Input{Name: "job.sh", Text: text, Dir:
// "/home/ada", ReadFile: os.ReadFile}) for _, c := range script.Commands { if c.Runs == shell.Never { continue }
// words, by := c.Unwrap() // without srun, env, nohup, … for _, w := range words { w.Text, w.Certainty, w.Reason } }
// # Words  A [Word] has a text and says how certain it is. [Sure] is a text that the script fixes. [Assumed] is one
// that holds unless the environment or the script's arguments say otherwise (`${SIZE:-8}`, `$1` where no arguments
// were given to Read). [Unknown] has the reason in Reason; its Text is what could be told of it, with nothing in the
// place of the rest. A word for which Many is true may be several words or none at all, such as `$EXTRA_ARGS`. A
// reader that wants to be right takes Sure words alone; one that wants to be helpful takes Assumed ones too, and says
// so.  A word consists of pieces ([Word.Pieces]), each of which knows the bytes of the source where it stands
// literally: of `--batch_size=$B` with `B=4` in line 3 the second piece is the 4 of line 3, with the place of $B in
// Via. That is what a patch of the user's own file needs.  # Whether a command runs  [Surely] means: runs if nothing
// before it fails. [Maybe] has the reason in Why; Likely is true there where only an assumed value stands between.
// [Never] is a branch that is not taken, what follows an exit, or the body of a function that nobody calls. Guarded
// says that the script deals with the failure of this command (`big || small`, `if ! big`, `$?`), so that its failing
// does not mean that the script fails. A loop over words that are known is unrolled, and its commands are Maybe, with
// Likely.  # Files  [Script.Open] reads a file as a command would find it: one that the script wrote with a
// here-document has that text, one that it may have changed (sed -i, cp, tee, a program that is given its name, git
// pull …) gives a *[RewrittenError]. Readers must open all files through it, for the command that reads them.  #
// Bounds  A script is 256 KiB at most, and nesting, steps, words and the length of values are limited; beyond it Read
// returns a *[LimitError]. Scripts and texts that a script runs (source, bash FILE, bash -c TEXT, eval) are followed
// to a depth of 5 through ReadFile. No environment but Input.Env is looked at, and no file but through ReadFile.
package shell
