package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// sentinels are all that an answer can stand for.
var sentinels = []error{
	plane.ErrNotFound, plane.ErrExists, plane.ErrNullLength, plane.ErrHeld, plane.ErrLostRace, plane.ErrOpenHere,
	plane.ErrDraining, plane.ErrFull, plane.ErrClosed, plane.ErrFenced, plane.ErrMoved, plane.ErrGap, plane.ErrConflict, plane.ErrCut,
	plane.ErrCancelled, plane.ErrTooLong, plane.ErrShort, plane.ErrDenied,
	wire.ErrBadRequest, wire.ErrUnauthorized, wire.ErrForeign, wire.ErrTooLarge, wire.ErrMediaType, wire.ErrUnavailable,
	wire.ErrNoRoute, wire.ErrMethod, wire.ErrUnsupported, wire.ErrInternal,
}

// sent is what is left of an error after a hop.
func sent(tb testing.TB, err error) *wire.Error {
	tb.Helper()
	said := wire.FromError(err)
	body, failed := json.Marshal(wire.ErrorBody{Error: said})
	if failed != nil {
		tb.Fatal(failed)
	}
	return wire.Decode(said.Status, body)
}

func TestAnErrorIsTheSameAfterAHop(t *testing.T) {
	codes := make(map[string]error)
	for _, err := range sentinels {
		got := sent(t, fmt.Errorf("do this: %w", wire.Detail(err, "what to do")))
		for _, other := range sentinels {
			if errors.Is(got, other) != (other == err) {
				t.Errorf("%v became %v: is %v: %v", err, got, other, errors.Is(got, other))
			}
		}
		if before := codes[got.Code]; before != nil {
			t.Errorf("%v and %v have one code, %s", before, err, got.Code)
		}
		codes[got.Code] = err
		if err != wire.ErrInternal && (got.Message != "what to do" || got.Status == http.StatusInternalServerError) {
			t.Errorf("%v: %d %s", err, got.Status, got.Message)
		}
	}
}

func TestAnOffsetThatWasRefusedComesWithTheOneToUse(t *testing.T) {
	for code, kind := range map[string]error{"gap": plane.ErrGap, "conflict": plane.ErrConflict} {
		for _, want := range []int64{0, 7} {
			got := sent(t, fmt.Errorf("append: %w", &plane.OffsetError{Kind: kind, From: 9, Want: want}))
			var offset *plane.OffsetError
			if got.Code != code || got.Status != http.StatusConflict || got.Want == nil || *got.Want != want || !errors.Is(got, kind) ||
				!errors.As(got, &offset) || offset.Want != want || offset.Kind != kind {
				t.Errorf("%s at %d: %+v, %+v", code, want, got, offset)
			}
		}
	}
	got := sent(t, fmt.Errorf("append: %w", &plane.OffsetError{Kind: plane.ErrMoved, From: 7, Want: 7}))
	if got.Code != "moved" || got.Status != http.StatusServiceUnavailable || got.Want == nil || *got.Want != 7 || !errors.Is(got, plane.ErrMoved) {
		t.Errorf("of a stream that moves: %+v", got)
	}
	if got := sent(t, plane.ErrClosed); got.Want != nil || errors.As(got, new(*plane.OffsetError)) {
		t.Errorf("another error: %+v", got)
	}
}

func TestWhatIsNotDurableIsThatWhateverItsCause(t *testing.T) {
	for _, cause := range []error{plane.ErrNotFound, plane.ErrFenced, wire.ErrUnavailable, errors.New("broken pipe"), nil} {
		got := sent(t, fmt.Errorf("flush: %w", &plane.ShortError{Durable: 3, Produced: 5, Cause: cause}))
		if got.Status != http.StatusServiceUnavailable || got.Code != "not_durable" || !errors.Is(got, plane.ErrShort) ||
			cause != nil && errors.Is(got, cause) {
			t.Errorf("%v: %d %v", cause, got.Status, got)
		}
		if want := "durable 3 of 5 produced; the store did not take the rest"; got.Message != want {
			t.Errorf("%v: %q", cause, got.Message)
		}
	}
}

func TestANameThatIsOpenHereIsNotOneThatHasText(t *testing.T) {
	for err, code := range map[error]string{plane.ErrOpenHere: "open_here", plane.ErrExists: "exists", plane.ErrHeld: "held"} {
		if got := sent(t, err); got.Code != code || got.Status != http.StatusConflict {
			t.Errorf("%v: %d %s", err, got.Status, got.Code)
		}
	}
}

func TestAnAnswerThatIsNoneOfOursIsAnInternalError(t *testing.T) {
	for _, body := range []string{"", "<html>", "{}", `{"error":null}`, `{"error":{"code":""}}`, `{"error":"x"}`, `{"error":{"code":"new_one","message":"m"}}`} {
		got := wire.Decode(http.StatusBadGateway, []byte(body))
		if got.Status != http.StatusBadGateway || !errors.Is(got, wire.ErrInternal) || got.Message == "" || got.Code == "" {
			t.Errorf("%q: %d %+v", body, got.Status, got)
		}
	}
	if got := wire.FromError(errors.New("SELECT password")); got.Code != "internal" || got.Message != wire.ErrInternal.Error() {
		t.Errorf("what is in no table is told: %v", got)
	}
}
