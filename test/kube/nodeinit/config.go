// Package nodeinit is the first process of a node: it mounts, starts the node's programs, restarts those that fail,
// and reaps. When it dies everything on the node dies with it, which makes a SIGKILL a power cut.
package nodeinit

// Config is what the first process does, in order.
type Config struct {
	Hostname  string    `json:"hostname"`
	Cgroup    string    `json:"cgroup"`
	Socket    string    `json:"socket"` // where it listens for Request
	Path      string    `json:"path"`   // PATH of the programs
	LogDir    string    `json:"logDir"`
	Tmpfs     []string  `json:"tmpfs"`
	Binds     []Bind    `json:"binds"`
	Processes []Process `json:"processes"`
}

// Bind shows one folder in the place of another.
type Bind struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Process is a program that runs as long as the node does.
type Process struct {
	Name  string   `json:"name"`
	Args  []string `json:"args"`
	After Gate     `json:"after"`
}

// Gate is what has to answer before a process starts. An empty one is open.
type Gate struct {
	Socket string `json:"socket,omitempty"` // a unix socket that accepts
	URL    string `json:"url,omitempty"`    // an https address that answers 200
	CA     string `json:"ca,omitempty"`
	Cert   string `json:"cert,omitempty"`
	Key    string `json:"key,omitempty"`
}

// The verbs of a Request.
const (
	VerbStop  = "stop"  // SIGKILL, and no restart
	VerbStart = "start" // start a stopped process; one that runs is left alone
)

// Request asks a running node's first process for something.
type Request struct {
	Verb    string `json:"verb"`
	Process string `json:"process"`
}

// Reply answers a Request; Error is empty when it was done.
type Reply struct {
	Error string `json:"error,omitempty"`
}
