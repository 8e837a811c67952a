package table

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

var _ = flag.Uint64("seed", 0, "replay random tests with this seed") // bloomtest.Seed reads it

func linesOf(text string) func() Lines {
	return func() Lines {
		return func(yield func([]byte, error) bool) {
			for line := range strings.Lines(text) {
				if !yield([]byte(line), nil) {
					return
				}
			}
		}
	}
}

// withFields returns the schema of records, in which fields is an object.
func withFields() *Schema {
	s := Records()
	if !slices.Contains(s.objects, "fields") {
		s.columns = append(s.columns, Column{"fields", JSON})
		s.objects = append(s.objects, "fields")
	}
	return s
}

func columnsOf(t *testing.T, s *Schema, names ...string) (columns []Column) {
	t.Helper()
	for _, name := range names {
		c, err := s.Column(name)
		if err != nil {
			t.Fatal(err)
		}
		columns = append(columns, c)
	}
	return columns
}

func write(t *testing.T, table Table, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := table.Write(linesOf(text), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const sample = `{"url":"http://a.example/","host":"a.example","outcome":"ok","status":200,"depth":0,"fetched_at":"2026-11-23T10:00:00.5Z","duration_ms":1.5,"truncated":true,"fields":{"price":19.5,"name":"Lamp","tags":["a","b"]}}
{"url":"http://a.example/b","host":"a.example","outcome":"client_error","status":404,"depth":1,"fetched_at":"2026-11-24T10:00:00Z","duration_ms":2}
{"url":"http://b.example/","host":"b.example","outcome":"network","depth":1,"fetched_at":"2026-11-25T10:00:00Z","duration_ms":0,"error":"refused","fields":{"price":"7","unit price":3}}
`

// TestConditionSelects: each condition selects the right ones of three records, or is
// refused with the right error.
func TestConditionSelects(t *testing.T) {
	for condition, want := range map[string]string{
		`status >= 400`:                   "b",
		`status>=400`:                     "b",
		`status != 404`:                   "ac",
		`status < 1000`:                   "ab",
		`state = done`:                    "ab",
		`state = done AND status != 200`:  "b",
		`host = a.example and status=200`: "a",
		`host = "a.example" and status<300 and url ~ ^http`: "a",
		`url ~ ^http://a\.example/(b|c)$`:                   "b",
		`url !~ 'b$'`:                                       "ac",
		`truncated = true`:                                  "a",
		`truncated = false`:                                 "bc",
		`truncated != true`:                                 "bc",
		`fields.price > 8`:                                  "a",
		`fields.price <= 7.0`:                               "c",
		`fields.name = Lamp`:                                "a",
		`fields.name < M`:                                   "a",
		`fields.none != 3`:                                  "abc",
		`fields.none = 3`:                                   "",
		`fields.tags ~ '"b"'`:                               "a",
		`fields.tags.x = 1`:                                 "",
		`"fields.unit price" = 3`:                           "c",
		`error = 'refused'`:                                 "c",
		`error = "it's"`:                                    "",
		`fetched_at >= 2026-11-24`:                          "bc",
		`fetched_at < 2026-11-24T10:00:00Z`:                 "a",
		`fetched_at = '2026-11-24 10:00:00'`:                "b",
		``:                                                  "!want COLUMN OPERATOR VALUE",
		`status`:                                            `!at "status": want COLUMN OPERATOR VALUE`,
		`status >=`:                                         `!at "status >=": want COLUMN`,
		`status >= abc`:                                     `!status is a number: want one behind >=, not "abc"`,
		`statuss = 3`:                                       `!no column "statuss": want url, host`,
		`status = 3 url = 4`:                                `!at "url = 4": want COLUMN`,
		`status = 404 or status = 200`:                      "ab",
		`host=b.example or host=a.example and status=404`: "bc",
		`(host=b.example or host=a.example) and depth=1`:  "bc",
		`(host=a.example OR depth=1) and(status=404)`:     "b",
		`not status = 404`:                      "ac",
		`not (status = 404 or error = refused)`: "a",
		`not not status = 404`:                  "b",
		`not(status != 404)`:                    "b",
		`not status = 200 and not depth = 1`:    "",
		`(url ~ (b|x)$)`:                        "b",
		`(url ~ /(b|x)$) or (status = 200)`:     "ab",
		`(url ~ '/b$')`:                         "b",
		`url ~ \)$`:                             "",
		`(((status = 404)))`:                    "b",
		`(status = 404`:                         `!want a closing parenthesis`,
		`status = 404)`:                         `!at ")": want COLUMN`,
		`()`:                                    `!at ")": want COLUMN`,
		`(status = )`:                           `!want COLUMN`,
		`not`:                                   `!want COLUMN`,
		`or status = 3`:                         `!want COLUMN`,
		`status = 3 or`:                         `!want COLUMN`,
		`status = 3 and or depth = 1`:           `!want COLUMN`,
		strings.Repeat("(", 90) + "depth=1" + strings.Repeat(")", 90):   "bc",
		strings.Repeat("(", 200) + "depth=1" + strings.Repeat(")", 200): "!more than 100",
		strings.Repeat("not ", 10_000) + "depth=1":                      "!more than 100",
		`status = 3 and `:        `!want COLUMN`,
		`url ~ '('`:              "!missing closing )",
		`status ~ 4`:             `!~ is for text`,
		`truncated > true`:       `!true or false`,
		`fetched_at > yesterday`: `!2026-01-31`,
		`url = 'abc`:             `!at "url = 'abc"`,
		`url ! 3`:                `!want COLUMN`,
		`'' = 3`:                 `!no column ""`,
		`url ~ =1$`:              "!quotes around a value with spaces or with =",
		`fields. = 3`:            `!no column "fields."`,
	} {
		c, err := withFields().Condition(condition)
		if problem, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), problem) {
				t.Errorf("%s: error %v, want one with %q", condition, err, problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		got := ""
		out := write(t, Table{Schema: withFields(), Where: c}, sample)
		for i, line := range strings.SplitAfter(sample, "\n")[:3] {
			if strings.Contains(out, line) {
				got += string(rune('a' + i))
			}
		}
		if got != want || strings.Count(out, "\n") != len(want) {
			t.Errorf("%s selects %q, want %q:\n%s", condition, got, want, out)
		}
	}
}

// FuzzCondition: no text makes the parser or a comparison panic.
func FuzzCondition(f *testing.F) {
	f.Add(`status >= 400 and url ~ 'a b' and "fields.x y" != 3`)
	s := withFields()
	f.Fuzz(func(_ *testing.T, text string) {
		if c, err := s.Condition(text); err == nil {
			c.holds(&row{members: []member{{"status", []byte("3")}}})
		}
	})
}

// TestColumnsInEachFormat: each format has the right cells for the same three records.
func TestColumnsInEachFormat(t *testing.T) {
	s := withFields()
	columns := columnsOf(t, s, "url", "state", "status", "fields.price", "fields.tags", "fetched_at")
	jsonl := write(t, Table{Schema: s, Columns: columns}, sample)
	want := `{"url":"http://a.example/","state":"done","status":200,"fields.price":19.5,"fields.tags":["a","b"],"fetched_at":"2026-11-23T10:00:00.5Z"}
{"url":"http://a.example/b","state":"done","status":404,"fetched_at":"2026-11-24T10:00:00Z"}
{"url":"http://b.example/","state":"failed","fields.price":"7","fetched_at":"2026-11-25T10:00:00Z"}
`
	if diff := cmp.Diff(want, jsonl); diff != "" {
		t.Error(diff)
	}
	text := write(t, Table{Schema: s, Columns: columns, Format: CSV}, sample)
	want = `url,state,status,fields.price,fields.tags,fetched_at
http://a.example/,done,200,19.5,"[""a"",""b""]",2026-11-23T10:00:00.5Z
http://a.example/b,done,404,,,2026-11-24T10:00:00Z
http://b.example/,failed,,7,,2026-11-25T10:00:00Z
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	all := write(t, Table{Schema: s, Format: CSV}, sample)
	header, _, _ := strings.Cut(all, "\n")
	if !strings.HasPrefix(header, "url,host,outcome,status,") || !strings.HasSuffix(header, ",fields.name,fields.price,fields.tags,fields.unit price") {
		t.Errorf("a table without named columns has the header %s, want all columns", header)
	}
	damaged := Table{Schema: s, Columns: columnsOf(t, s, "status")}
	if err := damaged.Write(linesOf(`{"url":"http://a.example/","status":"x"}`), io.Discard); err == nil || !strings.Contains(err.Error(), `status of http://a.example/ is "x", which is no int`) {
		t.Errorf("Write of a record with the status x: error %v, want one that names the status", err)
	}
	for _, name := range []string{"statuss", "fields", "url.x", ""} {
		if c, err := s.Column(name); (err == nil) != (name == "fields") {
			t.Errorf("Column(%q) = %v, %v; want an error for all names but \"fields\"", name, c, err)
		}
	}
	if err := (Table{Schema: s, Columns: columnsOf(t, s, "url", "url")}).Write(linesOf(sample), io.Discard); err == nil {
		t.Error("Write of a table with one column twice: no error")
	}
	if err := (Table{Schema: s, Format: "xml"}).Write(linesOf(sample), io.Discard); err == nil {
		t.Error("Write of a table in the format xml: no error")
	}
	if err := (Table{Schema: s, Columns: columns}).Write(linesOf("{\n"), io.Discard); err == nil {
		t.Error("Write of half a record: no error")
	}
}

// TestRoundTrip: random records are unchanged after JSON lines → Parquet → JSON lines,
// and each column has one type.
func TestRoundTrip(t *testing.T) {
	seed := bloomtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	text := randomRecords(t, rng, 3000)
	s := withFields()
	back, kinds := readParquet(t, []byte(write(t, Table{Schema: s, Format: Parquet}, text)))
	if len(back) != 3000 {
		t.Fatalf("the file has %d records, want 3000", len(back))
	}
	i := 0
	for line := range strings.Lines(text) {
		var want map[string]any
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, back[i]); diff != "" {
			t.Fatalf("record %d: %s", i, diff)
		}
		i++
	}
	for name, want := range map[string]string{
		"url": "STRING", "status": "INT(64,true)", "duration_ms": "DOUBLE", "truncated": "BOOLEAN",
		"fetched_at": "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)",
		"fields.int": "INT(64,true)", "fields.float": "DOUBLE", "fields.text": "STRING", "fields.bool": "BOOLEAN", "fields.mixed": "JSON", "fields.list": "JSON",
	} {
		if kinds[name] != want {
			t.Errorf("column %s has the type %s, want %s", name, kinds[name], want)
		}
	}
}

// TestManyGroups: a row group ends at its limit, and no row is lost.
func TestManyGroups(t *testing.T) {
	var text strings.Builder
	big := strings.Repeat("x", 1<<20)
	for i := range 40 {
		fmt.Fprintf(&text, "{\"url\":\"http://a.example/%d\",\"error\":%q}\n", i, big)
	}
	out := write(t, Table{Schema: Records(), Format: Parquet}, text.String())
	f, err := parquet.OpenFile(strings.NewReader(out), int64(len(out)))
	if err != nil {
		t.Fatal(err)
	}
	if groups := len(f.RowGroups()); groups != 2 || f.NumRows() != 40 {
		t.Errorf("40 MiB are %d rows in %d row groups, want 40 rows in 2 groups", f.NumRows(), groups)
	}
}

func randomRecords(t *testing.T, rng *rand.Rand, n int) string {
	t.Helper()
	var text []byte
	for i := range n {
		r := record.Record{
			URL: fmt.Sprintf("http://h%d.example/%d", rng.IntN(9), i), Host: "h", Outcome: "ok", Status: rng.IntN(3) * 200, ID: fmt.Sprintf("%016x", rng.Uint64()),
			FetchedAt: time.UnixMilli(rng.Int64N(4e12)).UTC(), DurationMS: float64(rng.IntN(1e6)) / 1000, Bytes: rng.Int64(), Truncated: rng.IntN(2) == 0,
			Title: []string{"", "a,b", "=1+1", "line\nline", "\"", "é\u2028\x00"}[rng.IntN(6)],
		}
		line, err := r.AppendLine(nil)
		if err != nil {
			t.Fatal(err)
		}
		fields := make(map[string]any)
		for name, value := range map[string]any{
			"int": rng.IntN(1000) - 500, "float": []any{1, 2.5}[rng.IntN(2)], "text": "−3", "bool": rng.IntN(2) == 0, "mixed": []any{"3", 3, true, nil}[rng.IntN(3)],
			"list": []any{"a", 1.5, map[string]any{"k": "<&>"}},
		} {
			if rng.IntN(3) > 0 {
				fields[name] = value
			}
		}
		if len(fields) > 0 {
			line = append(bytes.TrimSuffix(line, []byte("}\n")), `,"fields":`+jsonText(fields)+"}\n"...)
		}
		text = append(text, line...)
	}
	return string(text)
}

// readParquet returns the rows of a file in the form of decoded JSON, and the types of
// its columns.
func readParquet(t *testing.T, file []byte) (rows []map[string]any, kinds map[string]string) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	kinds = make(map[string]string)
	for _, c := range f.Root().Columns() {
		kinds[c.Name()] = c.Type().String()
	}
	reader := parquet.NewReader(f)
	buffer := make([]parquet.Row, 100)
	for {
		n, err := reader.ReadRows(buffer)
		for _, values := range buffer[:n] {
			rows = append(rows, rowOf(t, f, kinds, values))
		}
		if err == io.EOF {
			return rows, kinds
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func rowOf(t *testing.T, f *parquet.File, kinds map[string]string, values parquet.Row) map[string]any {
	t.Helper()
	r := make(map[string]any)
	for _, v := range values {
		name := f.Root().Columns()[v.Column()].Name()
		var value any
		switch {
		case v.IsNull():
			continue
		case kinds[name] == "JSON":
			if err := json.Unmarshal(v.ByteArray(), &value); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(kinds[name], "TIMESTAMP"):
			value = time.UnixMicro(v.Int64()).UTC().Format(time.RFC3339Nano)
		case v.Kind() == parquet.Int64:
			value = float64(v.Int64())
		case v.Kind() == parquet.Double:
			value = v.Double()
		case v.Kind() == parquet.Boolean:
			value = v.Boolean()
		default:
			value = v.String()
		}
		if inner, is := strings.CutPrefix(name, "fields."); is {
			if r["fields"] == nil {
				r["fields"] = make(map[string]any)
			}
			r["fields"].(map[string]any)[inner] = value
			continue
		}
		r[name] = value
	}
	return r
}

// TestHostileCells: no cell begins with a character that a spreadsheet takes for a
// formula. This also holds for spreadsheets that end cells at other characters than a
// comma. Without the added apostrophes, the text is unchanged.
func TestHostileCells(t *testing.T) {
	hostile := []string{
		`=1+1`, `+1`, `-1`, `@SUM(A1)`, "\t=1+1", "\r=1+1", "\n=1+1", ` =1+1`, `"=1+1"`, `=cmd|' /C calc'!A0`, `=HYPERLINK("http://evil.example","x")`,
		`a;=1+1`, "a\t@x", "a\n-2+3", "a\r\n=1", "x|=1", `";=1`, "\ufeff=1", "\u00a0=1", "\u200b=1", "\x00=1", "＝1+1", "＋1", "－1", "＠1", "\v=1", "\u2028=1", "a;\"=1", `;;=1`,
	}
	for _, inner := range slices.Clone(hostile) {
		hostile = append(hostile, "harmless;"+inner, "\t"+inner)
	}
	s := withFields()
	var text bytes.Buffer
	for _, cell := range hostile {
		fmt.Fprintf(&text, "{\"title\":%s,\"fields\":{\"a\":%s,\"b\":[%[2]s]},\"depth\":-5}\n", jsonText(cell), jsonText(cell))
	}
	out := write(t, Table{Schema: s, Format: CSV, Columns: columnsOf(t, s, "title", "fields.a", "fields.b", "depth", "fields.=x")}, text.String())
	// Read the file correctly, and then like a program that ends cells at another
	// character.
	all, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(hostile)+1 {
		t.Fatalf("%d rows, want %d", len(all), len(hostile)+1)
	}
	for i, row := range all[1:] {
		if got := strings.ReplaceAll(row[0], "'", ""); got != strings.ReplaceAll(strings.ReplaceAll(hostile[i], "\r\n", "\n"), "'", "") {
			t.Errorf("the text %q became %q, want it the same but for apostrophes", hostile[i], row[0])
		}
		if row[3] != "-5" {
			t.Errorf("the number -5 became %q", row[3])
		}
		for _, cell := range row[:3] {
			for _, part := range strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune(";\t|\n\r\v\u2028", r) }) {
				if bare := strings.Trim(part, " \t\"\ufeff\u00a0\u200b\x00"); bare != "" && strings.ContainsAny(bare[:1], "=+-@") || strings.HasPrefix(bare, "＝") {
					t.Errorf("%q became %q, in which %q is a formula", hostile[i], cell, part)
				}
			}
		}
	}
	if all[0][4] != "fields.=x" {
		t.Errorf("header %q, want \"fields.=x\" as the last name", all[0])
	}
}

// TestSchemaOfStruct: the columns are the fields of the struct with a JSON name, and
// the schema of records has the main columns.
func TestSchemaOfStruct(t *testing.T) {
	s := schemaOf(reflect.TypeFor[struct {
		A *int64         `json:"a,omitempty"`
		B map[string]any `json:"b"`
		C []string       `json:"c"`
		D float32        `json:"d"`
		E string         `json:"-"`
		F any            `json:"f"`
	}]())
	if got := fmt.Sprint(s.columns, s.objects); got != "[{a int} {b json} {c json} {d float} {f json}] [b f]" {
		t.Error(got)
	}
	names := Records().Names()
	for _, name := range []string{"url", "outcome", "status", "fetched_at", "title", "warc_offset", "state"} {
		if !slices.Contains(names, name) {
			t.Errorf("no column %s in %v", name, names)
		}
	}
}

// TestEmptyCellAlone: a reader of CSV finds a row that has only one empty cell, although such
// readers skip empty lines.
func TestEmptyCellAlone(t *testing.T) {
	s := Records()
	got := write(t, Table{Schema: s, Format: CSV, Columns: columnsOf(t, s, "title")}, "{\"title\":\"a\"}\n{}\n{\"title\":\"\"}\n{\"title\":\"b\"}\n")
	rows, err := csv.NewReader(strings.NewReader(got)).ReadAll()
	if want := [][]string{{"title"}, {"a"}, {""}, {""}, {"b"}}; err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("the file %q has the rows %q, %v, want %q", got, rows, err, want)
	}
}

// TestNumberBeyondFloat: the type that Write finds for a column fits each number in the column,
// even a number that is too large for a float64.
func TestNumberBeyondFloat(t *testing.T) {
	const text = "{\"fields\":{\"n\":1}}\n{\"fields\":{\"n\":1e400}}\n"
	for _, names := range [][]string{nil, {"fields.n"}} {
		s := withFields()
		wanted := Table{Schema: s, Format: Parquet, Columns: columnsOf(t, s, names...)}
		columns, err := wanted.resolve(linesOf(text))
		if want := (Column{"fields.n", JSON}); err != nil || !slices.Contains(columns, want) {
			t.Errorf("columns %q: %v, %v, want %v among them", names, columns, err, want)
		}
		write(t, wanted, text)
	}
}
