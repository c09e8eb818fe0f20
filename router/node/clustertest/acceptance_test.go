package clustertest

import (
	"testing"
	"time"
)

// The failures at which clusters like this one had public bugs, and the tests that
// hold this one to what it promises there:
//
//	a zombie: a pause, and then back          TestAnOwnerThatWasFrozenForLongerThanItsLeaseWritesNothingMore
//	a zombie's seal that arrives late         TestASealThatArrivesAfterTheSweepChangesNothing
//	a split brain, whose halves both write    TestAStreamThatIsOpenedOnBothSidesOfACutIsOneSides
//	rings that differ while a node joins      TestTwoThatBothThinkThatTheyOwnANewStreamOpenItOnce
//	a ring change that moves a live id        TestLiveStreamsStayWhereTheyAreWhenNodesJoin
//	an attach that goes in a circle           TestNoRequestGoesInACircleWhileRingsDisagree
//	a pair that is cut, all alive in gossip   TestReadersOfAPairThatIsCutFollowTheStore
//	a node that accepts and never answers     TestAnAttachEndsInTimeWhateverTheOwnerDoes (it is deaf)
//	a failover that loses confirmed commits   plane: TestWhatAStoreHasLostIsCommittedAgain; store/postgres/faulttest: TestStreamsOutliveWhatHappensToTheirDatabase
//	a reader between takeover and first frame TestReadersThatComeAtAnyMomentOfAHandOverSeeTheText

// Readers come through every node, every few milliseconds, from before the owner gives
// its stream up until after another has it.
func TestReadersThatComeAtAnyMomentOfAHandOverSeeTheText(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(3)
		w.produce("s", 0, 120, 50*time.Millisecond)
		w.open("s")
		time.Sleep(time.Second)
		owner, _ := w.host("s")
		moved := make(chan struct{})
		w.running.Go(func() { // it is the root's, and waits for it
			defer close(moved)
			owner.drain()
		})
		time.Sleep(1400 * time.Millisecond) // the others take note
		for range 60 {
			at := w.rng.IntN(3)
			w.read("s", at, "auto", w.rng.Int64N(w.judge.of("s").row.Seq+1))
			time.Sleep(5 * time.Millisecond)
		}
		<-moved
		w.settle()
		if w.moved() != 1 {
			w.t.Error("the stream did not change hands")
		}
		w.unseen(leaving...)
	})
}
