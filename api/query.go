package api

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator/invalid"
)

// query is a checked query: every name in it is one that the route takes.
type query map[string]string

// parseQuery refuses parameters that are unknown or repeated: a misspelt
// parameter that is dropped gives another answer than was asked for.
func parseQuery(rawQuery string, accepted []string) (query, error) {
	if rawQuery == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, problem.New(problem.InvalidQuery, "The query cannot be read: %v.", err)
	}
	takes := "this resource takes no parameters"
	if len(accepted) > 0 {
		takes = "accepted: " + strings.Join(accepted, ", ")
	}
	q := make(query, len(values))
	var wrong invalid.List
	for name, given := range values {
		switch {
		case !slices.Contains(accepted, name):
			wrong.Add("", "unknown_parameter", "%q is not a query parameter; %s", clip(name), takes)
		case len(given) > 1:
			wrong.Add("", "duplicate_parameter", "%s is given %d times", name, len(given))
		default:
			q[name] = given[0]
		}
	}
	if bad, ok := wrong.Err().(*invalid.Error); ok {
		slices.SortFunc(bad.Fields, func(a, b invalid.Field) int { return strings.Compare(a.Detail, b.Detail) })
		p := problem.New(problem.InvalidQuery, "%s.", bad.Fields[0].Detail)
		if n := len(bad.Fields); n > 1 {
			p.Detail = fmt.Sprintf("%d problems, listed in errors.", n)
		}
		p.Errors = bad.Fields[:min(len(bad.Fields), 100)]
		return nil, p
	}
	return q, nil
}

// flag reads a parameter that is true or false.
func (q query) flag(name string) (bool, error) {
	switch value := q[name]; {
	case value == "true":
		return true, nil
	case value == "false" || len(q) == 0:
		return false, nil
	default:
		if _, given := q[name]; !given {
			return false, nil
		}
		return false, problem.New(problem.InvalidQuery, "%s is %q; accepted: true, false.", name, clip(value))
	}
}

// calibration reads the calibration that a request pins; empty where it pins none.
func (q query) calibration() (string, error) {
	id, given := q["calibration"]
	if given && (!harmless(id)) {
		return "", problem.New(problem.InvalidQuery, "calibration is %q; accepted: the id of a calibration, such as "+
			"cal-3-5f2a9c01d7e4 or the one in an answer's versions.", clip(id))
	}
	return id, nil
}

// maxSafeInteger is the largest whole number that JavaScript has exactly.
const maxSafeInteger = 1<<53 - 1

// number reads a parameter that is a whole number from 0.
func (q query) number(name string) (int64, error) {
	value, given := q[name]
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > maxSafeInteger {
		return 0, problem.New(problem.InvalidQuery, "%s is %q; accepted: a whole number from 0 to 9007199254740991.",
			name, clip(value))
	}
	return n, nil
}
