// Package netns connects from inside of a network namespace: a client there is cut off together with the node whose
// namespace it is, and its clock is still that of the test.
package netns

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dial is how a client connects.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer connects from inside of the namespace that a file stands for. A socket stays in the namespace in which it was
// made, so that only the making has to happen there. The address has to be an IP: names are looked up outside.
func Dialer(file string) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		type made struct {
			conn net.Conn
			err  error
		}
		result := make(chan made, 1)
		go inside(file, func(err error) {
			if err != nil {
				result <- made{err: err}
				return
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			result <- made{conn, err}
		})
		answer := <-result
		return answer.conn, answer.err
	}
}

// inside runs do on a thread that was moved into the namespace. Go ends that thread with the goroutine, because it stays
// locked; all but the first thread of the process, by which others judge where the whole process lives.
func inside(file string, do func(error)) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			inside(file, do)
		}()
		<-done
		runtime.UnlockOSThread()
		return
	}
	do(enter(file))
}

func enter(file string) error {
	namespace, err := os.Open(file)
	if err != nil {
		return err
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", file, err)
	}
	return nil
}
