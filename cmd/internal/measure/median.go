package measure

import "slices"

// Median is the middle of what of says of each of a list, which is not empty.
func Median[T any](list []T, of func(T) float64) float64 {
	values := make([]float64, len(list))
	for i, v := range list {
		values[i] = of(v)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
