package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Handle identifies a process for as long as the machine runs: a number alone may be given to somebody else.
type Handle struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // start time in the kernel's ticks
}

// HandleOf looks a process up.
func HandleOf(pid int) (Handle, error) {
	fields, err := stat(pid)
	if err != nil {
		return Handle{}, err
	}
	return Handle{PID: pid, Start: fields[startField]}, nil
}

// Alive tells whether this very process still runs.
func (h Handle) Alive() bool {
	fields, err := stat(h.PID)
	return h.PID > 0 && err == nil && fields[startField] == h.Start && fields[stateField] != "Z" && fields[stateField] != "X"
}

// Kill sends SIGKILL to the process if it is still that one.
func (h Handle) Kill() error {
	if !h.Alive() {
		return nil
	}
	if err := syscall.Kill(h.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Save writes the handle to a file.
func (h Handle) Save(file string) error {
	content, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// LoadHandle reads what Save wrote. Without a file it is the handle of nobody.
func LoadHandle(file string) (Handle, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Handle{}, nil
	}
	if err != nil {
		return Handle{}, err
	}
	var handle Handle
	if err := json.Unmarshal(content, &handle); err != nil {
		// Cut short by a crash: whoever it was is found by its namespace.
		return Handle{}, nil
	}
	return handle, nil
}

// Places in the part of /proc/PID/stat that follows the program's name.
const (
	stateField  = 0
	parentField = 1
	startField  = 19
)

func stat(pid int) ([]string, error) {
	content, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	if err != nil {
		return nil, err
	}
	// The name in parentheses may hold spaces and parentheses itself.
	end := strings.LastIndexByte(string(content), ')')
	fields := strings.Fields(string(content[end+1:]))
	if len(fields) <= startField {
		return nil, fmt.Errorf("/proc/%d/stat: only %d fields", pid, len(fields))
	}
	return fields, nil
}
