package generate

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"rillkeep.dev/rillkeep/router/upstream"
)

const (
	maxAttempts = 4
	firstPause  = 500 * time.Millisecond // doubling
)

// tries counts the attempts of one call.
type tries struct {
	made int
	left time.Duration // for the waits
}

// again waits for the next attempt after one that failed with err before the first of
// its response was there, or answers false: then err is how the call ends.
func (t *tries) again(ctx context.Context, err error) bool {
	t.made++
	if t.made >= maxAttempts || !mayPass(err) {
		return false
	}
	pause := firstPause << (t.made - 1)
	pause = pause/2 + rand.N(pause)
	if refused, ok := errors.AsType[*StatusError](err); ok && refused.RetryAfter > 0 {
		pause = refused.RetryAfter + rand.N(firstPause/2) // all who were told the same must not come back as one
	}
	if pause > t.left {
		return false
	}
	t.left -= pause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// mayPass reports whether a call that failed so may succeed a moment later.
func mayPass(err error) bool {
	if refused, ok := errors.AsType[*StatusError](err); ok {
		switch refused.Status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout, 529: // overloaded, of some
			return !refused.final
		default:
			return false
		}
	}
	if said, ok := errors.AsType[*upstream.Error](err); ok {
		for _, word := range []string{said.Type, said.Code} {
			switch word {
			case "overloaded_error", "rate_limit_error", "rate_limit_exceeded", "server_error", "api_error", "429", "500", "502", "503", "529":
				return true
			}
		}
		return false
	}
	return errors.Is(err, ErrUnreached) || errors.Is(err, upstream.ErrTruncated) || errors.Is(err, upstream.ErrEmpty)
}

// retryAfter is how long a provider asks to wait; 0 if it does not say.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return seconds(ms / 1000)
	}
	after := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(after, 64); err == nil && s > 0 {
		return seconds(s)
	}
	if at, err := http.ParseTime(after); err == nil {
		return seconds(max(0, time.Until(at).Seconds()))
	}
	return 0
}

// seconds is s as a duration, of a day at most.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 24*60*60) * float64(time.Second))
}
