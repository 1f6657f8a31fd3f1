package readers_test

// random tests draw the same for everybody
