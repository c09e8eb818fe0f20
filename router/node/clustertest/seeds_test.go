package clustertest

// chaosSeeds are those of the schedules that are always run; ones that found something
// stay.
var chaosSeeds = []uint64{1, 2, 3}
