package plane

// CutBytes returns how many bytes at the end of s are the beginning of a character
// that lacks its last bytes: what comes next may complete it.
func CutBytes(s string) int { return cutBytes(s) }
