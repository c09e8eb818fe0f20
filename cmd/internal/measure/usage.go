package measure

import (
	"os"
	"time"
)

// Usage is what there was to see at a moment: of this process, of servers, and of
// the machine.
type Usage struct {
	At      time.Time
	Machine time.Duration
	Self    time.Duration
	Servers []Process
}

// UsageOf reads what has been used so far; servers are processes' ids.
func UsageOf(servers ...int) (u Usage, err error) {
	u.At = time.Now()
	if u.Machine, err = Machine(); err != nil {
		return u, err
	}
	self, err := Of(os.Getpid())
	if err != nil {
		return u, err
	}
	u.Self = self.Used
	for _, pid := range servers {
		p, err := Of(pid)
		if err != nil {
			return u, err
		}
		u.Servers = append(u.Servers, p)
	}
	return u, nil
}

// Others returns how many processors neither the servers nor this process used
// since an earlier moment.
func (u Usage) Others(since Usage) float64 {
	others := u.Machine - since.Machine - (u.Self - since.Self)
	for i := range u.Servers {
		others -= u.Servers[i].Used - since.Servers[i].Used
	}
	return max(0, others.Seconds()/u.At.Sub(since.At).Seconds())
}
