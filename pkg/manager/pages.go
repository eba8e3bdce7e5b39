package manager

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// giveBackOnceStarted gives the pages of the program back when the caches are filled. Nearly half of a controller's code are kinds
// of Kubernetes' API that it only makes known to itself when it starts; what it runs with comes back by itself.
func giveBackOnceStarted(mgr ctrl.Manager) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return nil
		}
		if err := giveBackProgram(); err != nil {
			ctrl.Log.Info("The pages of the program stay in memory", "error", err.Error())
		}
		return nil
	})
}

// giveBackProgram tells the kernel that the pages of the program itself aren't needed now.
func giveBackProgram() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer maps.Close()
	parts, err := untouched(maps, program)
	for _, p := range parts {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, p.from, p.to-p.from, unix.MADV_DONTNEED); errno != 0 {
			err = errors.Join(err, fmt.Errorf("give back %x-%x: %w", p.from, p.to, errno))
		}
	}
	return err
}

// part is a stretch of addresses.
type part struct{ from, to uintptr }

// untouched are the parts of memory that show a file as it is on disk: nobody may write to them, and nobody has, as a loader
// does that moves a program. Only those come back as they were.
func untouched(smaps io.Reader, file string) (parts []part, err error) {
	lines := bufio.NewScanner(smaps)
	candidate := false
	var now part
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 6 && strings.Contains(fields[0], "-"):
			candidate = fields[5] == file && !strings.Contains(fields[1], "w")
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &now.from, &now.to); err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
		case len(fields) > 1 && strings.Contains(fields[0], "-"):
			candidate = false
		case candidate && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0":
			parts = append(parts, now)
		}
	}
	return parts, lines.Err()
}
