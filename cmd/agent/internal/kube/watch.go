package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Merge patches the object at path with a JSON merge patch, and reads what it has become into into. A resourceVersion in
// the patch is its precondition.
func (c *Client) Merge(ctx context.Context, path, manager string, patch, into any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	target := c.base + path + "?" + url.Values{"fieldManager": {manager}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	return c.do(request, into)
}

// watchTime is for how long one watch is asked for; watchSlack is what the server may be late with its end.
const (
	watchTime  = 9 * time.Minute
	watchSlack = 30 * time.Second
)

// Watch calls each with the JSON of every new state of one object, from a resourceVersion on, until the server ends the
// watch (nil) or it fails. folder is the path of the objects of its kind. Without a version the state that the object has
// comes first, as new as one that is asked for; servers before Kubernetes 1.34 refuse that.
func (c *Client) Watch(ctx context.Context, folder, name, version string, each func(json.RawMessage) error) error {
	ctx, cancel := context.WithTimeout(ctx, watchTime+watchSlack)
	defer cancel()
	query := url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + name}, "timeoutSeconds": {strconv.Itoa(int(watchTime.Seconds()))},
	}
	if version != "" {
		query.Set("resourceVersion", version)
	} else {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		query.Set("allowWatchBookmarks", "true") // has to be, but says nothing that isn't known
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+folder+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	if err := c.authorize(request); err != nil {
		return err
	}
	// A watch has no time limit as a whole, so it can't be made by the client of the other requests.
	response, err := (&http.Client{Transport: c.http.Transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		answer, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		return statusError(response.StatusCode, answer)
	}
	return readEvents(response.Body, each)
}

func readEvents(body io.Reader, each func(json.RawMessage) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		event := struct {
			Type   string
			Object json.RawMessage
		}{}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("read an event of the API server: %w", err)
		}
		switch event.Type {
		case "ADDED", "MODIFIED":
			if err := each(event.Object); err != nil {
				return err
			}
		case "DELETED":
			return &StatusError{Code: http.StatusNotFound, Reason: "NotFound", Message: "the object was deleted"}
		case "ERROR":
			status := &StatusError{}
			_ = json.Unmarshal(event.Object, status) // what can't be read stays empty
			return status
		}
	}
	return lines.Err()
}
