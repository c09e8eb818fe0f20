package store

import "strings"

// Sound makes free text, an error's or a producer's, storable as the text of a
// stream is by the time it gets here: what is not UTF-8 becomes U+FFFD, and so
// does NUL, which Postgres refuses. A Store applies it to what it writes; who
// shows the text before it is stored applies it first.
func Sound(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
