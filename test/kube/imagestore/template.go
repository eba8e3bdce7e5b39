package imagestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/lockfile"
	"howdah.dev/test/kube/oci"
)

// Template is a containerd root that holds the images which every new node starts with. It has no daemon: one runs
// while something is imported.
type Template struct {
	Folder string
	Bin    string // folder with containerd and ctr
}

func (t Template) root() string      { return filepath.Join(t.Folder, "root") }
func (t Template) indexFile() string { return filepath.Join(t.Folder, "images.json") }

// Images returns the digest of each image by name, as of the last Load that was completed.
func (t Template) Images() (map[string]string, error) {
	images := map[string]string{}
	content, err := os.ReadFile(t.indexFile())
	if errors.Is(err, fs.ErrNotExist) {
		return images, nil
	}
	if err != nil {
		return nil, err
	}
	return images, json.Unmarshal(content, &images)
}

// lock keeps the template from changing under a reader, and two daemons from waiting for one database for ever.
func (t Template) lock(ctx context.Context, mode lockfile.Mode) (release func(), err error) {
	return lockfile.Acquire(ctx, filepath.Join(t.Folder, "lock"), mode, func() {})
}

// Load imports what the template lacks of the archives.
func (t Template) Load(ctx context.Context, archives ...string) error {
	release, err := t.lock(ctx, lockfile.Exclusive)
	if err != nil {
		return err
	}
	defer release()
	have, err := t.Images()
	if err != nil {
		return err
	}
	var missing []string
	for _, archive := range archives {
		wanted, err := oci.Read(archive)
		if err != nil {
			return err
		}
		if !hasAll(have, wanted) {
			missing = append(missing, archive)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return t.with(ctx, func(client Client) error {
		for _, archive := range missing {
			if _, err := client.Load(ctx, archive); err != nil {
				return err
			}
		}
		images, err := client.Images(ctx)
		if err != nil {
			return err
		}
		return t.saveIndex(images)
	})
}

func (t Template) saveIndex(images map[string]string) error {
	content, err := json.MarshalIndent(images, "", "  ")
	if err != nil {
		return err
	}
	unfinished := t.indexFile() + ".new"
	if err := os.WriteFile(unfinished, content, 0o644); err != nil {
		return err
	}
	return os.Rename(unfinished, t.indexFile())
}

// with runs a containerd on the template for as long as use takes.
func (t Template) with(ctx context.Context, use func(Client) error) error {
	if err := os.MkdirAll(t.root(), 0o755); err != nil {
		return err
	}
	config := filepath.Join(t.Folder, "containerd.toml")
	socket := filepath.Join(t.Folder, "containerd.sock")
	if err := os.WriteFile(config, []byte(t.config(socket)), 0o644); err != nil {
		return err
	}
	stop, err := t.daemon(config)
	if err != nil {
		return err
	}
	defer stop()
	client := Client{Bin: t.Bin, Socket: socket}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = command.Until(ready, 50*time.Millisecond, "the template's containerd", func(ctx context.Context) (bool, error) {
		return client.Ready(ctx), nil
	})
	if err != nil {
		return fmt.Errorf("%w (see %s)", err, filepath.Join(t.Folder, "containerd.log"))
	}
	return use(client)
}

func (t Template) config(socket string) string {
	return fmt.Sprintf(`version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt"]

[grpc]
  address = %q

[plugins.'io.containerd.metadata.v1.bolt']
  no_sync = true
`, t.root(), filepath.Join(t.Folder, "state"), socket)
}

// daemon starts a containerd that dies with this process and takes its mounts with it. Linux binds that to the thread
// that forked, so one is kept for it.
func (t Template) daemon(config string) (stop func(), err error) {
	log, err := os.Create(filepath.Join(t.Folder, "containerd.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(t.Bin, "containerd"), "-c", config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNS}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it was told to end
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	}, nil
}
