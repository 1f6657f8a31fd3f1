package api

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vramplan/vramplan/api/problem"
)

// maxPageSize bounds the entries of one page.
const maxPageSize = 1000

// pageSize reads page_size; 0 is no limit.
func (q query) pageSize() (int, error) {
	if _, given := q["page_size"]; !given {
		return 0, nil
	}
	n, err := q.number("page_size")
	if err != nil || n < 1 || n > maxPageSize {
		return 0, problem.New(problem.InvalidQuery, "page_size is %q; accepted: a whole number from 1 to %d.",
			clip(q["page_size"]), maxPageSize)
	}
	return int(n), nil
}

// pageOf cuts the part of a list that a query asks for. A token names the last entry of the page
// before and its place: where the entry is gone, its place counts.
func pageOf[E any](q query, list []E, id func(*E) string) (part []E, next string, err error) {
	size, err := q.pageSize()
	if err != nil {
		return nil, "", err
	}
	from := 0
	if token, given := q["page_token"]; given {
		last, place, ok := readToken(token)
		if !ok {
			return nil, "", badToken(token)
		}
		from = min(place, len(list))
		for i := range list {
			if id(&list[i]) == last {
				from = i + 1
				break
			}
		}
	}
	part = list[from:]
	if size > 0 && len(part) > size {
		part = part[:size]
		next = writeToken(id(&part[size-1]), from+size)
	}
	return part, next, nil
}

// newestFirst is a list that the store pages, the newest first: a token is what it knows the last entry of the page
// before by.
type newestFirst struct {
	// limit is how many a page has.
	limit int
	token string
}

// defaultPage is the size of a page of such a list.
const defaultPage = 100

// newestFirst reads which page a query asks for.
func (q query) newestFirst() (p newestFirst, err error) {
	if p.limit, err = q.pageSize(); err != nil {
		return p, err
	}
	if p.limit == 0 {
		p.limit = defaultPage
	}
	token, given := q["page_token"]
	if given && !harmless(token) {
		return p, badToken(token)
	}
	p.token = token
	return p, nil
}

func badToken(token string) error {
	return problem.New(problem.InvalidQuery, "page_token is %q; accepted: a next_page_token of this list.", clip(token))
}

// numbered is a page of a list whose entries are numbered without gaps from 1; before is 0 for the first one.
func (q query) numbered() (p newestFirst, before int64, err error) {
	if p, err = q.newestFirst(); err != nil || p.token == "" {
		return p, 0, err
	}
	if before, err = strconv.ParseInt(p.token, 10, 64); err != nil || before < 1 {
		return p, 0, badToken(p.token)
	}
	return p, before, nil
}

// pageNumbered is a page as it is answered: never null, and with the token of the next page where there is one.
func pageNumbered[E any](p newestFirst, list []E, number func(*E) int64) (part []E, next string) {
	part, next = pageNamed(p, list, func(e *E) string { return strconv.FormatInt(number(e), 10) })
	if next == "1" { // the oldest there is
		next = ""
	}
	return part, next
}

// pageNamed is the same of a list whose end nobody knows before its last page is not full.
func pageNamed[E any](p newestFirst, list []E, id func(*E) string) (part []E, next string) {
	if list == nil {
		return []E{}, ""
	}
	if len(list) == p.limit {
		next = id(&list[len(list)-1])
	}
	return list, next
}

func writeToken(id string, place int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(place) + " " + id))
}

func readToken(token string) (id string, place int, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, false
	}
	number, id, _ := strings.Cut(string(text), " ")
	place, err = strconv.Atoi(number)
	return id, place, err == nil && place >= 0
}

// printable says whether a text may be asked of a database: PostgreSQL takes no NUL and nothing that
// is not UTF-8.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
