package console

// WaitForCounts makes the visitors of a test wait for a count of tasks that has begun, however busy the machine is.
func (c *Console) WaitForCounts() {
	for _, d := range c.databases {
		d.counted.patience = 0
	}
}
