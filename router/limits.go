package router

import (
	"cmp"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// Limits bound what clients may cost (B). The zero value of each means its
// default.
type Limits struct {
	AppendBytes   int64         // body of an append: 1 MiB
	HeaderTime    time.Duration // to send a request's header: 10 s
	BodyTime      time.Duration // to send a body, other than a pump's: 30 s
	AnswerTime    time.Duration // to take an answer that ends, from the request on: 3 min
	StoreTime     time.Duration // one store call that a request waits for: 10 s
	GenerateBytes int64         // body of a generate or a chat completion: 1 MiB
	Generations   int           // model calls running at once: 1,000
	ResponseBytes int           // of a provider's response that wait for the client of a chat completion: 1 MiB
	PumpLineBytes int           // line of a pump's body: 1 MiB
	Readers       int           // readers at once: 50,000
	Snapshots     int           // snapshots being answered at once, each a whole text: 16
	Ping          time.Duration // comment line to a reader: every 15 s
	Recheck       time.Duration // authorization of a reader: every 15 s; with keys, 1 s to 1 min
	Stall         time.Duration // a reader that takes nothing is closed: after 30 s
	DurablePoll   time.Duration // look for new durable text while changes elsewhere are not heard: every 250 ms
	FeedPoll      time.Duration // and while they are, beside the looks at what was heard of: every 2 s
	PageUnits     int64         // durable text read at once: 256 Ki units
}

func (l Limits) withDefaults() Limits {
	l.AppendBytes = cmp.Or(l.AppendBytes, 1<<20)
	l.BodyTime = cmp.Or(l.BodyTime, 30*time.Second)
	l.AnswerTime = cmp.Or(l.AnswerTime, 3*time.Minute)
	l.StoreTime = cmp.Or(l.StoreTime, 10*time.Second)
	l.GenerateBytes = cmp.Or(l.GenerateBytes, 1<<20)
	l.Generations = cmp.Or(l.Generations, 1_000)
	l.ResponseBytes = cmp.Or(l.ResponseBytes, 1<<20)
	l.PumpLineBytes = cmp.Or(l.PumpLineBytes, 1<<20)
	l.Readers = cmp.Or(l.Readers, 50_000)
	l.Snapshots = cmp.Or(l.Snapshots, 16)
	l.Ping = cmp.Or(l.Ping, 15*time.Second)
	l.Recheck = cmp.Or(l.Recheck, 15*time.Second)
	l.Stall = cmp.Or(l.Stall, 30*time.Second)
	l.DurablePoll = cmp.Or(l.DurablePoll, 250*time.Millisecond)
	l.FeedPoll = cmp.Or(l.FeedPoll, 2*time.Second)
	l.PageUnits = cmp.Or(l.PageUnits, 256<<10)
	return l
}

// How often a reader's authorization may be asked for again.
const (
	minRecheck = time.Second
	maxRecheck = time.Minute
)

// Validate reports which of l would be refused, on a node with keys or without.
func (l Limits) Validate(keys bool) error {
	for _, limit := range []struct {
		name string
		ok   bool
	}{
		{"AppendBytes", l.AppendBytes >= 0},
		{"HeaderTime", l.HeaderTime >= 0},
		{"BodyTime", l.BodyTime >= 0},
		{"AnswerTime", l.AnswerTime >= 0},
		{"StoreTime", l.StoreTime >= 0},
		{"GenerateBytes", l.GenerateBytes >= 0},
		{"Generations", l.Generations >= 0},
		{"ResponseBytes", l.ResponseBytes >= 0},
		{"PumpLineBytes", l.PumpLineBytes >= 0},
		{"Readers", l.Readers >= 0},
		{"Snapshots", l.Snapshots >= 0},
		{"Ping", l.Ping >= 0},
		{"Recheck", l.Recheck >= 0},
		{"Stall", l.Stall >= 0},
		{"DurablePoll", l.DurablePoll >= 0},
		{"FeedPoll", l.FeedPoll >= 0},
		{"PageUnits", l.PageUnits >= 0},
	} {
		if !limit.ok {
			return fmt.Errorf("%w: limit %s must be 0 or more", plane.ErrConfig, limit.name)
		}
	}
	if every := l.withDefaults().Recheck; keys && (every < minRecheck || every > maxRecheck) {
		return fmt.Errorf("%w: limit Recheck is %v, not from %v to %v", plane.ErrConfig, every, minRecheck, maxRecheck)
	}
	return nil
}
