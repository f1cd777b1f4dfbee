package history

import (
	"encoding/binary"
	"math"
)

// Bounds on what one record may need.
const (
	maxName   = 64  // bytes of the name of a kind or place
	maxNames  = 64  // different names in one block
	maxRecord = 320 // bytes of a record, names included
)

// A coder writes records behind one another into data, or reads them from there.
// Each method named after a type passes one field through: writing, the field is
// written and its bit set unless it has the foreseen value; reading, it is set. A
// field that is read never goes beyond data; what is wrong is kept in broken.
type coder struct {
	reading bool
	broken  bool
	mask    uint64 // bits of the record, the kind left out
	data    []byte
	pos     int // reading: of the next byte
	names   []string
	known   *nameTable // reading: names seen in other blocks, so that each is made once
	model   model
}

func (c *coder) reset(reading bool, data []byte, session, stream uint32) {
	c.reading, c.broken, c.mask, c.data, c.pos, c.names = reading, false, 0, data, 0, c.names[:0]
	c.model.reset(session, stream)
}

// write appends r; it reports false, and appends nothing, when r is no record.
func (c *coder) write(r *Record) bool {
	start, hashes := len(c.data), len(c.model.hashes)
	c.data = append(c.data, 0) // the shape, if it needs no more
	c.mask = 0
	own := *r // fields may set what it passes, to the value it has
	c.fields(&own)
	if c.broken {
		c.data = c.data[:start]
		return false
	}
	shape := c.mask | uint64(r.Kind)
	if shape < 0x80 {
		c.data[start] = byte(shape)
		return true
	}
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], shape)
	end := len(c.data)
	c.data = append(c.data, head[1:n]...) // room
	copy(c.data[start+n:], c.data[start+1:end])
	copy(c.data[start:], head[:n])
	for i := hashes; i < len(c.model.hashes); i++ {
		c.model.hashes[i] += uint32(n - 1)
	}
	return true
}

// read reads the next record into r; it reports false when there is none.
func (c *coder) read(r *Record) bool {
	shape := c.uvarint()
	*r = Record{Kind: Kind(shape & kindMask)}
	c.mask = shape &^ kindMask
	c.fields(r)
	if c.mask != 0 {
		c.fail()
	}
	return !c.broken
}

func (c *coder) fail() { c.broken = true }

// has takes the bit of a field; what is left in the end was a bit of no field.
func (c *coder) has(bit uint64) bool {
	set := c.mask&bit != 0
	c.mask &^= bit
	return set
}

func (c *coder) byte(bit uint64, v *uint8, foreseen uint8) {
	switch {
	case !c.reading:
		if *v != foreseen {
			c.mask |= bit
			c.data = append(c.data, *v)
		}
	case c.has(bit):
		*v = c.one()
	default:
		*v = foreseen
	}
}

func (c *coder) flag(bit uint64, v *bool, foreseen bool) {
	if c.reading {
		*v = foreseen != c.has(bit)
	} else if *v != foreseen {
		c.mask |= bit
	}
}

// int writes the difference, modulo 2⁶⁴, so that no value is out of range.
func (c *coder) int(bit uint64, v *int64, foreseen int64) {
	switch {
	case !c.reading:
		if *v != foreseen {
			c.mask |= bit
			c.data = binary.AppendVarint(c.data, *v-foreseen)
		}
	case c.has(bit):
		*v = foreseen + c.varint()
	default:
		*v = foreseen
	}
}

func (c *coder) uint32(bit uint64, v *uint32, foreseen uint32) {
	switch {
	case !c.reading:
		if *v != foreseen {
			c.mask |= bit
			c.near32(v, foreseen)
		}
	case c.has(bit):
		c.near32(v, foreseen)
	default:
		*v = foreseen
	}
}

// near32 has no bit: the value is there, as its distance from base.
func (c *coder) near32(v *uint32, base uint32) {
	if !c.reading {
		c.data = binary.AppendVarint(c.data, int64(*v)-int64(base))
		return
	}
	d := c.varint()
	if n := int64(base) + d; d >= -math.MaxUint32 && d <= math.MaxUint32 && n >= 0 && n <= math.MaxUint32 {
		*v = uint32(n)
		return
	}
	c.fail()
}

func (c *coder) plain32(v *uint32) { c.near32(v, 0) }

func (c *coder) float(bit uint64, v *float64, foreseen float64) {
	bits := math.Float64bits(*v)
	switch {
	case !c.reading:
		if bits != math.Float64bits(foreseen) {
			c.mask |= bit
			c.raw(&bits)
		}
	case c.has(bit):
		c.raw(&bits)
		*v = math.Float64frombits(bits)
	default:
		*v = foreseen
	}
}

// hash passes a value that is there, in full, or is 0; the bit says that it is not
// as foreseen. It returns where the value is in data, -1 for 0.
func (c *coder) hash(bit uint64, v *uint64, foreseen bool) int {
	there := *v != 0
	if c.reading {
		there = foreseen != c.has(bit)
	} else if there != foreseen {
		c.mask |= bit
	}
	if !there {
		*v = 0
		return -1
	}
	at := len(c.data)
	if c.reading {
		at = c.pos
	}
	c.raw(v)
	if c.broken {
		return -1
	}
	return at
}

func (c *coder) hashAt(at uint32) uint64 { return binary.LittleEndian.Uint64(c.data[at:]) }

func (c *coder) raw(v *uint64) {
	if !c.reading {
		c.data = binary.LittleEndian.AppendUint64(c.data, *v)
		return
	}
	if len(c.data)-c.pos < 8 {
		c.fail()
		return
	}
	*v = binary.LittleEndian.Uint64(c.data[c.pos:])
	c.pos += 8
}

// name passes a name: its number in the block, counted from 1, or 0 and the name
// itself when it is new.
func (c *coder) name(v *string) {
	if c.reading {
		c.readName(v)
		return
	}
	for i, n := range c.names {
		if n == *v {
			c.data = binary.AppendUvarint(c.data, uint64(i)+1)
			return
		}
	}
	if len(*v) > maxName || len(c.names) == maxNames {
		c.fail()
		return
	}
	c.names = append(c.names, *v)
	c.data = append(append(c.data, 0, byte(len(*v))), *v...)
}

func (c *coder) readName(v *string) {
	if i := c.uvarint(); i > 0 {
		if i > uint64(len(c.names)) {
			c.fail()
			return
		}
		*v = c.names[i-1]
		return
	}
	n := int(c.one())
	if n > maxName || n > len(c.data)-c.pos || len(c.names) == maxNames {
		c.fail()
		return
	}
	*v = c.known.one(c.data[c.pos : c.pos+n])
	c.pos += n
	c.names = append(c.names, *v)
}

func (c *coder) one() byte {
	if c.pos >= len(c.data) {
		c.fail()
		return 0
	}
	c.pos++
	return c.data[c.pos-1]
}

func (c *coder) uvarint() uint64 {
	v, n := binary.Uvarint(c.data[c.pos:])
	if n <= 0 {
		c.fail()
		return 0
	}
	c.pos += n
	return v
}

func (c *coder) varint() int64 {
	v, n := binary.Varint(c.data[c.pos:])
	if n <= 0 {
		c.fail()
		return 0
	}
	c.pos += n
	return v
}

func (c *coder) toInt(v int64) int {
	if int64(int(v)) != v {
		c.fail()
	}
	return int(v)
}

func (c *coder) toInt32(v int64) int32 {
	if int64(int32(v)) != v {
		c.fail()
	}
	return int32(v)
}

// A nameTable makes one string of equal names. It is bounded: what does not fit is
// made again each time.
type nameTable map[string]string

func (t *nameTable) one(name []byte) string {
	if s, ok := (*t)[string(name)]; ok {
		return s
	}
	s := string(name)
	if *t == nil {
		*t = nameTable{}
	}
	if len(*t) < 1024 {
		(*t)[s] = s
	}
	return s
}
