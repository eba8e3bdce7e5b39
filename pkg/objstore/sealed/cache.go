package sealed

import (
	"container/list"
	"sync"
)

// openers keeps those of the objects that were read last: a range needs no header then.
type openers struct {
	mu     sync.Mutex
	limit  int
	order  *list.List // of *cached, the one that was used last in front
	byName map[string]*list.Element
}

type cached struct {
	key    string
	opener *opener
}

func newOpeners(limit int) *openers {
	return &openers{limit: limit, order: list.New(), byName: map[string]*list.Element{}}
}

func (c *openers) get(key string) *opener {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.byName[key]
	if element == nil {
		return nil
	}
	c.order.MoveToFront(element)
	return element.Value.(*cached).opener
}

func (c *openers) add(key string, o *opener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.byName[key]; element != nil {
		element.Value.(*cached).opener = o
		c.order.MoveToFront(element)
		return
	}
	c.byName[key] = c.order.PushFront(&cached{key, o})
	if c.order.Len() > c.limit {
		c.drop(c.order.Back())
	}
}

func (c *openers) forget(keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if element := c.byName[key]; element != nil {
			c.drop(element)
		}
	}
}

func (c *openers) drop(element *list.Element) {
	c.order.Remove(element)
	delete(c.byName, element.Value.(*cached).key)
}
