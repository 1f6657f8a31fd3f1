package screen

import _ "github.com/vramplan/vramplan/reliability/draws" // random tests draw the same for everybody
