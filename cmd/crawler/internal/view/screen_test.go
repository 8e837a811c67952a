package view

import (
	"fmt"
	"strconv"
	"strings"
)

// screen is a terminal that understands the sequences that Live uses. It also keeps the
// rows that have scrolled off the screen. Unknown sequences are faults. Moves of the cursor
// to rows that have scrolled off the screen are also faults.
type screen struct {
	width, height int
	reflow        bool // true: a resize breaks lines anew; false: a resize cuts lines
	rows          []row
	y, x          int // the cursor; y is an index of rows
	faults        []string
	colors        int // SGR sequences seen
}

type row struct {
	text   []byte
	joined bool // the next row continues the same line
}

func newScreen(width, height int, reflow bool) *screen {
	return &screen{width: width, height: height, reflow: reflow, rows: make([]row, 1)}
}

func (s *screen) size() (int, int) { return s.width, s.height }

func (s *screen) faultf(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// top returns the index of the first row that is still on the screen.
func (s *screen) top() int { return max(len(s.rows)-s.height, 0) }

func (s *screen) Write(p []byte) (int, error) {
	for rest := string(p); rest != ""; {
		if body, ok := strings.CutPrefix(rest, "\x1b["); ok {
			end := strings.IndexFunc(body, func(r rune) bool { return r >= '@' && r <= '~' })
			if end < 0 {
				s.faultf("unfinished sequence %q", rest)
				break
			}
			s.obey(body[end], body[:end])
			rest = body[end+1:]
			continue
		}
		s.put(rest[0])
		rest = rest[1:]
	}
	return len(p), nil
}

func (s *screen) obey(command byte, arg string) {
	switch {
	case command == 'm':
		s.colors++
	case command == 'K' && arg == "":
		r := &s.rows[s.y] // the row stays joined to the next one, as on some terminals
		r.text = r.text[:min(s.x, len(r.text))]
	case command == 'J' && arg == "":
		s.obey('K', "")
		s.rows[s.y].joined = false
		for i := s.y + 1; i < len(s.rows); i++ {
			s.rows[i] = row{}
		}
	case command == 'A':
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 || s.y-n < s.top() {
			s.faultf("cursor up %q from row %d, but the first row on the screen is %d", arg, s.y, s.top())
			return
		}
		s.y -= n
	default:
		s.faultf("unknown sequence ESC [ %s %c", arg, command)
	}
}

func (s *screen) put(c byte) {
	switch {
	case c == '\r':
		s.x = 0
	case c == '\n': // like a terminal with ONLCR, not in raw mode
		s.x = 0
		s.down()
	case c < ' ' || c > '~':
		s.faultf("byte %#x, want a printable character", c)
	default:
		if s.x == s.width {
			s.rows[s.y].joined = true
			s.x = 0
			s.down()
		}
		r := &s.rows[s.y]
		for len(r.text) <= s.x {
			r.text = append(r.text, ' ')
		}
		r.text[s.x] = c
		s.x++
	}
}

func (s *screen) down() {
	s.y++
	if s.y == len(s.rows) {
		s.rows = append(s.rows, row{})
	}
}

// resize changes the size. The field reflow decides whether lines are broken anew or cut.
func (s *screen) resize(width, height int) {
	if s.reflow && width != s.width {
		s.rebreak(width)
	}
	for i := range s.rows {
		s.rows[i].text = s.rows[i].text[:min(len(s.rows[i].text), width)]
	}
	s.x = min(s.x, width-1)
	s.width, s.height = width, height
	// While the row of the cursor is above the new screen, remove the last row.
	for len(s.rows) > s.y+1 && s.top() > s.y {
		s.rows = s.rows[:len(s.rows)-1]
	}
}

// rebreak breaks all lines again at the new width. The cursor stays at its character.
func (s *screen) rebreak(width int) {
	rows, cursor := []row(nil), s.y
	for i := 0; i < len(s.rows); i++ {
		line, at := []byte(nil), -1 // at is the cursor's position in line
		for ; ; i++ {
			if i == cursor {
				at = len(line) + s.x
			}
			line = append(line, s.rows[i].text...)
			if !s.rows[i].joined || i+1 == len(s.rows) {
				break
			}
		}
		first := len(rows)
		for len(line) > width {
			rows = append(rows, row{line[:width:width], true})
			line = line[width:]
		}
		rows = append(rows, row{line, false})
		if at >= 0 {
			at = min(at, (len(rows)-first)*width-1)
			s.y, s.x = first+at/width, at%width
		}
	}
	s.rows = rows
}

// lines returns all lines, without blanks at their ends. It joins the rows of a line that
// takes several rows.
func (s *screen) lines() []string {
	var lines []string
	text := ""
	for _, r := range s.rows {
		text += string(r.text)
		if !r.joined {
			lines = append(lines, strings.TrimRight(text, " "))
			text = ""
		}
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
