package step

// Attention's batched products want their operands as one matrix for each head of each sequence, (B·h, n, d), and get
// views (B, h, n, d) of what linear layers laid out as (B, n, h, d). Whether that takes a copy depends on which
// dimensions there are to merge.

// Folded is x, a view of n tokens by heads, as a batched product takes it: a copy where heads lie inside tokens.
func (t *Tape) Folded(x T, n, heads int64) T {
	if t.folds(n, heads) {
		return t.Contiguous(x)
	}
	return t.Hold(x)
}

// Unfolded is the view (B, h, n, d) of a batched product's result, whose gradient is folded likewise. It takes over x.
func (t *Tape) Unfolded(x T, n, heads int64) T {
	if t.folds(n, heads) {
		return t.relaid(x)
	}
	return x
}

func (t *Tape) folds(n, heads int64) bool { return t.Shape.Batch > 1 && n > 1 && heads > 1 }

// ByTokens is x.transpose(1, 2).contiguous() of what Unfolded returned. It takes over x.
func (t *Tape) ByTokens(x T, n, heads int64) T {
	if n == 1 || heads == 1 {
		return x
	}
	y := t.Contiguous(x)
	t.Drop(x)
	return y
}

// ByHeads is x.view(B, n, h, d).transpose(1, 2) for a folded product. Its gradient comes with the heads outermost.
// It takes over x.
func (t *Tape) ByHeads(x T, n, heads int64) T { return t.Heads(x, n > 1 && heads > 1) }

// CopiesKeys says whether the gradient of n keys is copied on its way back. They enter their product transposed: so
// comes their gradient, and the elements of a token can be read out of it as long as there is one sequence.
func (t *Tape) CopiesKeys(n int64) bool { return t.Shape.Batch > 1 && n > 1 }
