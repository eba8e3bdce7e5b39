package agentapi

// Usage is what the container of an instance used within the last hour.
type Usage struct {
	// Seconds that were measured, an hour of them at most.
	Seconds int64 `json:"seconds"`
	// CPUMillis that it exceeded in a twentieth of the time only, in thousandths of a core.
	CPUMillis int64 `json:"cpuMillis"`
	// ThrottledShare of the periods in which it ran is that of those in which its CPU limit stopped it.
	ThrottledShare float64 `json:"throttledShare,omitempty"`
	// MemoryBytes at most, without the page cache.
	MemoryBytes int64 `json:"memoryBytes"`
}
