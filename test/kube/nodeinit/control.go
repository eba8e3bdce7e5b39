package nodeinit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
)

// listen answers requests on the node's socket, one per connection.
func (s *supervisor) listen(ctx context.Context) error {
	if err := os.RemoveAll(s.config.Socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", s.config.Socket)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go s.serve(ctx, connection)
	}
}

func (s *supervisor) serve(ctx context.Context, connection net.Conn) {
	defer connection.Close()
	var request Request
	if err := json.NewDecoder(connection).Decode(&request); err != nil {
		return
	}
	var reply Reply
	if err := s.do(ctx, request); err != nil {
		reply.Error = err.Error()
	}
	if err := json.NewEncoder(connection).Encode(reply); err != nil {
		s.log.Info("caller has gone", "error", err)
	}
}

func (s *supervisor) do(ctx context.Context, request Request) error {
	switch request.Verb {
	case VerbStop:
		return s.stop(ctx, request.Process)
	case VerbStart:
		return s.resume(request.Process)
	}
	return fmt.Errorf("no verb %q", request.Verb)
}

// Ask sends a request to the first process of a node and returns when it is done.
func Ask(ctx context.Context, socket string, request Request) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("reach the node: %w", err)
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { connection.Close() })()
	if err := json.NewEncoder(connection).Encode(request); err != nil {
		return err
	}
	var reply Reply
	if err := json.NewDecoder(connection).Decode(&reply); err != nil {
		return fmt.Errorf("the node didn't respond: %w", err)
	}
	if reply.Error != "" {
		return errors.New(reply.Error)
	}
	return nil
}
