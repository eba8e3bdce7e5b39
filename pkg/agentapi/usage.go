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
	// RecentCPUMillis that were used on average in the last RecentSeconds, five minutes at most.
	RecentCPUMillis int64 `json:"recentCPUMillis,omitempty"`
	RecentSeconds   int64 `json:"recentSeconds,omitempty"`
}

// Sessions of clients on a replica.
type Sessions struct {
	// Seconds that were looked at, five minutes at most.
	Seconds int64 `json:"seconds"`
	// Percent of the sessions that clients can have were used on average.
	Percent int64 `json:"percent"`
}
