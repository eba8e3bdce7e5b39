// Package imagetrial tries an image before an instance runs in it: `agent image`. It starts a server of the image on a data directory
// of its own, in a pod that is thrown away.
package imagetrial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/cmd/agent/internal/extensions"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// ReasonBadImage is the reason of a Job whose image can't run the cluster.
const ReasonBadImage = "BadImage"

// Worker tries images.
type Worker struct {
	Scratch string // an empty folder; its path must be short, as a socket lies in it
	Run     postgres.Run
	// ExtensionsDir has the images of extensions that the cluster has.
	ExtensionsDir string
}

// Format is what the programs that run on a data directory must have been built for.
func Format(control postgres.ControlData) *agentapi.DataFormat {
	return &agentapi.DataFormat{
		ControlVersion: control.ControlVersion, CatalogVersion: control.CatalogVersion,
		PageSize: control.PageSize, RelSegBlocks: control.RelSegBlocks,
	}
}

// Try says which release the image has, if it is one that can run the cluster.
func (w Worker) Try(ctx context.Context, task agentapi.ImageJob) (agentapi.ImageResult, error) {
	none := agentapi.ImageResult{}
	if task.MajorVersion == 0 {
		return none, job.Final(job.ReasonBadJob, errors.New("the job names no major version"))
	}
	binDir, err := postgres.BinDir(ctx, w.Run, task.MajorVersion)
	if err != nil {
		return none, w.refuse(ctx, err)
	}
	version, err := postgres.ProgramVersion(ctx, w.Run, filepath.Join(binDir, "postgres"))
	if err != nil {
		return none, w.refuse(ctx, err)
	}
	if err := older(version, task.NotBelow); err != nil {
		return none, err
	}
	pgdata := filepath.Join(w.Scratch, "data")
	if err := os.RemoveAll(pgdata); err != nil { // of a pod whose container was started again
		return none, err
	}
	args := append(initialize.Arguments(task.MajorVersion, pgdata, agentapi.Initdb{}), "--no-sync")
	if _, err := initialize.Initdb(ctx, w.Run, binDir, task.MajorVersion, args...); err != nil {
		return none, w.refuse(ctx, fmt.Errorf("initdb fails: %w", err))
	}
	found, err := extensions.Find(w.ExtensionsDir, task.MajorVersion)
	if err != nil {
		return none, w.refuse(ctx, err)
	}
	if err := w.start(ctx, binDir, pgdata, task.PreloadLibraries, found); err != nil {
		return none, w.refuse(ctx, err)
	}
	control, err := postgres.ReadControlData(ctx, w.Run, binDir, pgdata)
	if err != nil {
		return none, err
	}
	return agentapi.ImageResult{Version: version.String()}, differs(task.Format, Format(control))
}

// older says that the image has an older release than the one that runs, which only a person goes back to.
func older(version postgres.Version, notBelow string) error {
	if notBelow == "" {
		return nil
	}
	runs, err := postgres.ParseVersion(notBelow)
	if err != nil {
		return job.Final(job.ReasonBadJob, err)
	}
	if version.Compare(runs) < 0 {
		return job.Final(ReasonBadImage, fmt.Errorf("it has PostgreSQL %s, and %s runs, which is newer", version, runs))
	}
	return nil
}

// refuse an image for good, unless the pod was only told to stop.
func (w Worker) refuse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return job.Final(ReasonBadImage, err)
}

// start has a server start and stop with the libraries of the cluster.
func (w Worker) start(ctx context.Context, binDir, pgdata, libraries string, found extensions.Folders) error {
	lines, err := postgres.RenderConf(append(found.Parameters(), []postgres.Parameter{
		{Name: "listen_addresses"}, {Name: "unix_socket_directories", Value: w.Scratch}, {Name: "fsync", Value: "off"},
		{Name: "shared_buffers", Value: "16MB"}, {Name: "shared_preload_libraries", Value: libraries},
	}...))
	if err != nil {
		return err
	}
	conf, err := os.OpenFile(filepath.Join(pgdata, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString(lines)
	if err := errors.Join(err, conf.Close()); err != nil {
		return err
	}
	ctl, log := filepath.Join(binDir, "pg_ctl"), filepath.Join(w.Scratch, "server.log")
	if _, err := w.Run(ctx, ctl, "-D", pgdata, "-w", "-t", "120", "-l", log, "start"); err != nil {
		return fmt.Errorf("PostgreSQL doesn't start in it: %s", reason(log, err))
	}
	_, err = w.Run(ctx, ctl, "-D", pgdata, "-w", "-m", "immediate", "stop")
	return err
}

// reason is what a server said last before it gave up.
func reason(log string, otherwise error) string {
	content, err := os.ReadFile(log)
	if err != nil {
		return otherwise.Error()
	}
	for line := range strings.Lines(string(content)) {
		if _, text, found := strings.Cut(line, "FATAL:"); found {
			return strings.TrimSpace(text)
		}
	}
	return otherwise.Error()
}

// differs says that a server of the image refuses the data of the cluster; nil: it doesn't, or the format of the data isn't known.
func differs(data, image *agentapi.DataFormat) error {
	if data == nil || *data == *image {
		return nil
	}
	return job.Final(ReasonBadImage, fmt.Errorf("it was built for other data files: the cluster has pg_control %d, catalog %d, pages of %d bytes and files of %d pages, the image %d, %d, %d and %d",
		data.ControlVersion, data.CatalogVersion, data.PageSize, data.RelSegBlocks, image.ControlVersion, image.CatalogVersion, image.PageSize, image.RelSegBlocks))
}
