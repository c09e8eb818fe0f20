package upstream

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage bounds a provider's message, in bytes, as readers see it.
const maxMessage = 400

// secrets finds what a provider's message may hold and a reader must not see:
// where its machines are and what opens them. Too much is cut rather than too
// little: the message as it came is in Error.Raw. The order matters, wider
// forms first.
var secrets = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`), "[url]"},
	{regexp.MustCompile(`[^\s@"'<>]+@[^\s@"'<>]+`), "[address]"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;]+`), "$1 [key]"},
	{regexp.MustCompile(`(?i)\b((?:api[-_ ]?key|token|secret|password|authorization)["']?\s*[:=]\s*["']?)[^\s"',;]+`), "${1}[key]"},
	{regexp.MustCompile(`(?i)\b(?:sk|pk|rk|ak|gsk|xai|hf|ghp|key|org|proj|acct)[-_][A-Za-z0-9_*.-]+`), "[key]"},
	{regexp.MustCompile(`\b(?:AKIA|ASIA|AIza|eyJ)[A-Za-z0-9_.-]{8,}`), "[key]"},
	{regexp.MustCompile(`\b[A-Za-z0-9_+=-]{32,}`), "[key]"},
	{regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`), "[host]"},
	{regexp.MustCompile(`\[?(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?:%\w+)?(?:\]:?\d*)?`), "[host]"},
	{regexp.MustCompile(`\b[A-Za-z0-9_.-]+:\d{2,5}\b`), "[host]"},
	{regexp.MustCompile(`\b(?:[A-Za-z0-9_-]+\.)+[A-Za-z][A-Za-z0-9-]+\b`), "[host]"},
	{regexp.MustCompile(`(?i)\b(host|hostname|lookup|server|node|pod|peer|worker)([ :='"]+)[A-Za-z0-9]*[0-9-][A-Za-z0-9_-]*`), "$1$2[host]"},
	{regexp.MustCompile(`(^|[^\w.])(?:/[\w.@-]+){2,}`), "$1[path]"},
}

// redact returns message without secrets and control characters, on one line
// and of bounded length.
func redact(message string) string {
	if most := 4 * maxMessage; len(message) > most { // the work is bounded too
		message = clip(message, most)
		if at := strings.LastIndexByte(message, ' '); at >= 0 {
			message = message[:at] // the last word may be half a secret
		}
	}
	for _, s := range secrets {
		message = s.find.ReplaceAllString(message, s.put)
	}
	message = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, message)
	if len(message) > maxMessage {
		message = clip(message, maxMessage) + "…"
	}
	return strings.TrimSpace(message)
}

// clip returns the first n bytes of s or a few less, never half a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
