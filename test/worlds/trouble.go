package worlds

import (
	"slices"
	"testing/synctest"
	"time"
)

// trouble with a process: it dies at one of its next writes, is held up before one while a successor takes its place, or continues beside
// its successor for a few passes.
func (c *control) trouble() {
	p := c.processes[c.world.random.IntN(len(c.processes))]
	switch n := 1 + c.world.random.IntN(6); {
	case p.ghost || p.held != nil || p.lives > 0 || p.holdAt > 0 || p.holdKind != "":
	case p.name == dbController && c.world.chance(2):
		p.holdKind = "StatefulSet"
		c.world.people.changeParameters()
	case c.world.chance(3):
		p.lives = n
	case c.world.chance(3):
		p.holdAt = n
	default:
		c.world.say("%s has a successor, and has yet to notice", p)
		p.ghost, p.passes = true, n
		c.launch(p.name, 0)
	}
}

// succeed has whoever is held up get a successor, and continue at some time: mostly while somebody else has what it would write to. Meanwhile
// somebody wants the volumes.
func (c *control) succeed() {
	for _, held := range slices.Clone(c.processes) {
		switch {
		case held.held == nil:
		case !held.ghost:
			held.ghost, held.passes = true, 1
			c.launch(held.name, time.Duration(c.world.random.IntN(5))*time.Second)
		case c.world.kube.written() && c.world.chance(8), c.world.chance(200):
			c.resume(held)
		case c.world.chance(30) && !c.world.people.busy():
			c.world.people.request()
		}
	}
}

// leave has a controller be away for long: no process of it is elected before. It returns for how long.
func (c *control) leave(name string) time.Duration {
	away := time.Duration(1+c.world.random.IntN(15)) * time.Minute
	at := slices.IndexFunc(c.processes, func(p *process) bool { return p.name == name && !p.ghost })
	if at < 0 || c.processes[at].held != nil || c.world.people.busy() && name == dbController {
		return away
	}
	p := c.processes[at]
	p.dead = true
	c.processes = without(c.processes, p)
	c.world.say("%s dies, and is away for long", p)
	c.launch(p.name, away)
	return away
}

func (c *control) resume(p *process) {
	c.world.say("%s continues", p)
	close(p.held)
	synctest.Wait()
	c.bury(p)
}

// heal has no process die or be held up any more; one that is continues.
func (c *control) heal() {
	for _, p := range slices.Clone(c.processes) {
		p.lives, p.holdAt, p.holdKind, p.begins = 0, 0, "", time.Now()
		if p.held != nil {
			c.resume(p)
		}
		if p.ghost {
			p.dead = true
			c.processes = without(c.processes, p)
		}
	}
}
