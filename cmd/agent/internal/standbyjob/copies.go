package standbyjob

import (
	"fmt"
	"os"

	"howdah.dev/howdah/cmd/agent/internal/generation"
)

// copies are the folders of a data generation: of the copy of the current data, of one that is being made, and of one that was replaced.
type copies struct {
	volume generation.Volume
	id     string
}

func (c copies) next() string     { return c.id + ".next" }
func (c copies) replaced() string { return c.id + ".replaced" }

// settle completes a replacement that was interrupted.
func (c copies) settle() error {
	if err := generation.CompleteExchange(c.volume, c.id, c.next(), c.replaced()); err != nil {
		return err
	}
	return c.remove(c.replaced())
}

// exchange has the next copy be the current one, and removes the other one.
func (c copies) exchange() error {
	if err := generation.Exchange(c.volume, c.id, c.next(), c.replaced()); err != nil {
		return err
	}
	return c.remove(c.replaced())
}

func (c copies) remove(id string) error {
	if err := os.RemoveAll(c.volume.Dir(id)); err != nil {
		return fmt.Errorf("remove what is not needed any more: %w", err)
	}
	return nil
}
