// Package desired derives from what was observed how the agents, the StatefulSet and its pods shall be, and in what they differ.
package desired
