package generate

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestARedirectStaysOnItsHostAndRepeatsTheRequest(t *testing.T) {
	at := func(method, url string) *http.Request {
		req, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	first := at(http.MethodPost, "https://models.example/v1/messages")
	for to, follows := range map[string]bool{
		"https://models.example/v2/messages":       true,
		"https://models.example:8443/v1/messages":  false,
		"http://models.example/v1/messages":        false, // the key in the clear
		"https://models.example.evil/v1/messages":  false,
		"https://eu.models.example/v1/messages":    false,
		"https://169.254.169.254/latest/meta-data": false,
	} {
		if err := sameHost(at(http.MethodPost, to), []*http.Request{first}); (err == nil) != follows {
			t.Errorf("%s: %v", to, err)
		}
	}
	there := "https://models.example/v2/messages"
	if sameHost(at(http.MethodGet, there), []*http.Request{first}) == nil {
		t.Error("a GET is followed")
	}
	if sameHost(at(http.MethodPost, there), []*http.Request{first, first, first, first}) == nil {
		t.Error("redirects go on and on")
	}
	// The way back from a redirect that was followed counts from the first request.
	if sameHost(at(http.MethodPost, "https://other.example/"), []*http.Request{first, at(http.MethodPost, "https://other.example/")}) == nil {
		t.Error("the host of the second request is followed")
	}
}

func TestAProviderSaysHowLongToWaitInOneOfThreeWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(http.TimeFormat) }
		for _, tt := range []struct {
			after, ms string
			want      time.Duration
		}{
			{"", "", 0}, {"7", "", 7 * time.Second}, {"1.5", "", 1500 * time.Millisecond}, {"7", "250", 250 * time.Millisecond},
			{"7", "0", 7 * time.Second}, {"7", "x", 7 * time.Second}, {"-7", "", 0}, {"0", "", 0}, {"soon", "", 0},
			{date(9 * time.Second), "", 9 * time.Second}, {date(-9 * time.Second), "", 0},
			{"1e300", "", 24 * time.Hour}, {"", "1e300", 24 * time.Hour}, {"Inf", "", 24 * time.Hour}, {"NaN", "NaN", 0},
		} {
			h := http.Header{}
			h.Set("Retry-After", tt.after)
			h.Set("Retry-After-Ms", tt.ms)
			if got := retryAfter(h); got != tt.want {
				t.Errorf("%q, %q ms: %v, want %v", tt.after, tt.ms, got, tt.want)
			}
		}
	})
}

// However many attempts there are, and whatever the provider asks for, all waits
// together are within the patience.
func TestWaitsAreWithinThePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []time.Duration{0, time.Millisecond, 4 * time.Second, 12 * time.Second, 29 * time.Second, time.Minute} {
			for range 20 {
				tries, began, last := tries{left: DefaultPatience}, time.Now(), time.Now()
				for tries.again(t.Context(), &StatusError{Status: 429, RetryAfter: after}) {
					if waited := time.Since(last); waited < after {
						t.Errorf("it waited %v, and was asked for %v", waited, after)
					}
					last = time.Now()
				}
				if took := time.Since(began); took > DefaultPatience || tries.made > maxAttempts {
					t.Errorf("asked for %v: %d attempts in %v", after, tries.made, took)
				}
			}
		}
	})
}
