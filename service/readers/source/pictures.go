package source

// Pictures says how a model of the catalog is trained with pictures.
type Pictures int

// Kinds of models.
const (
	// NoPictures is a model that reads none.
	NoPictures Pictures = iota
	// SomePictures is one that is trained as its text model alone where a job shows it none.
	SomePictures
	// AlwaysPictures is one that is trained with pictures.
	AlwaysPictures
)

// PicturesOf is the kind of a model that reads pictures, and is always trained with some or not.
func PicturesOf(reads, always bool) Pictures {
	switch {
	case always:
		return AlwaysPictures
	case reads:
		return SomePictures
	}
	return NoPictures
}
