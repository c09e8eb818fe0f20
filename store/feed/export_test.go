package feed

// Append adds e to b as a publisher writes it.
func Append(b []byte, e Envelope) []byte {
	b = append(b, head...)
	for n, c := range e.Changes {
		if n > 0 {
			b = append(b, ',')
		}
		b = c.append(b)
	}
	return appendTail(b, e.Producer, e.Seq)
}
