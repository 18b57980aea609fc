package dialect

// end is where the statement of a batch ends that begins with row from of n.
func (b Batch) end(args Args, from, n int) int {
	to := min(from+b.Max, n)
	if payloads, ok := args[b.Apart].(Col[[]byte]); ok {
		long := func(i int) bool { return len(payloads[i]) > b.Long }
		for i := from + 1; i < to; i++ {
			if long(i) != long(from) {
				to = i
				break
			}
		}
	}
	for _, size := range b.Sizes {
		if size <= to-from {
			return from + size
		}
	}
	return to
}
