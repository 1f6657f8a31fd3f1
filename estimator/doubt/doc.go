// Package doubt has the reasons why a real run may differ from its replay, and how far: the bounds of an answer. Each
// says which measured or traced runs its width was read off. Whoever resolves a job and whoever answers for it name
// them; which apply to a run is said where it is answered.
package doubt
