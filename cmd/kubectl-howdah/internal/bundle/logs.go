package bundle

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/howdah/cmd/kubectl-howdah/internal/instancelog"
)

const (
	// maxLines of one log are written, the last ones.
	maxLines = 20_000
	// maxBytes of one log are held in memory.
	maxBytes = 32 << 20
)

// log writes the log of one container, or the lines of it that contain a text.
func (c *collector) log(ctx context.Context, namespace string, pod instancelog.Pod, containing string, previous bool) {
	name := pod.Name
	if previous {
		name += ".previous"
	}
	options := &corev1.PodLogOptions{
		Container: pod.Container, Previous: previous, Timestamps: true,
		TailLines: ptr.To[int64](maxLines), LimitBytes: ptr.To[int64](maxBytes),
	}
	if c.Since > 0 {
		options.SinceSeconds = ptr.To(int64((c.Since + time.Second - 1) / time.Second))
	}
	stream, err := c.Open(namespace)(ctx, pod.Name, options)
	if err != nil {
		if !previous { // most containers have never ended
			c.archive.problem("log of pod "+name, err)
		}
		return
	}
	defer stream.Close()
	var text bytes.Buffer
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, containing) {
			text.WriteString(line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			c.archive.problem("log of pod "+name+", which ends early", err)
			break
		}
	}
	if text.Len() > 0 {
		c.archive.file("logs/"+name+".log", text.Bytes())
	}
}
