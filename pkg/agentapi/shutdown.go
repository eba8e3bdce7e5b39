package agentapi

// AnnotationShutdown on the EndpointSlice of the primary is how the server ended that clients were led to last: a Shutdown in JSON. It is there only
// while no other server leads clients to itself.
const AnnotationShutdown = "howdah.dev/shutdown"

// Shutdown is the end of a primary whose pod has ended in order.
type Shutdown struct {
	// Instance that was primary, and the DataGeneration that it ran on.
	Instance       string `json:"instance"`
	DataGeneration string `json:"dataGeneration"`
	// Unarchived are files of WAL that are on the volume only, and Error why, for a person. None: the archive has every commit.
	Unarchived []string `json:"unarchived,omitempty"`
	Error      string   `json:"error,omitempty"`
}
