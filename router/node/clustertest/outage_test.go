package clustertest

import (
	"strings"
	"testing"
	"time"
)

func TestANodeThatIsLostIsOneWarningOfEachOtherWhoeverReadsItsStreams(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*member){"killed": (*member).kill, "vanished": (*member).vanish} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(3)
				w.load(6, 100, 200*time.Millisecond, "auto")
				time.Sleep(5 * time.Second)
				w.more("auto")
				lost := w.hosts()[w.producers[0].id]
				lose(lost)
				w.agree(15 * time.Second)
				w.more("auto")
				time.Sleep(10 * time.Second)
				warned := map[string]int{}
				for line := range strings.Lines(w.log.tail(1 << 20)) {
					f := strings.Fields(line)
					said := strings.Contains(line, "could not ask another node") || strings.Contains(line, "relay failed")
					if f[2] == "WARN" && said && f[1] != lost.name {
						warned[f[1]]++
					}
				}
				if name == "killed" && len(warned) != 2 { // of who vanished the ring may know sooner
					t.Errorf("%d say it", len(warned))
				}
				for who, n := range warned {
					if n > 1 {
						t.Errorf("%s says it %d times", who, n)
					}
				}
			})
		})
	}
}
