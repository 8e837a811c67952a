package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"path"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// routeAll makes the mux, its routes, and the OpenAPI document of the routes.
func (s *Server) routeAll() {
	s.mux = http.NewServeMux()
	config := huma.DefaultConfig("crawler", "1")
	config.CreateHooks, config.DocsPath, config.SchemasPath, config.OpenAPIPath = nil, "", "", ""
	config.RejectUnknownQueryParameters = true
	config.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	config.Transformers = []huma.Transformer{transform}
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	config.Info.Description = "Crawls over HTTP. Each request that changes something has an Idempotency-Key, and one effect."
	s.api = humago.New(s.mux, config)
	s.routeCrawls()
	s.routeSteering()
	s.routeLooks()
	s.routeRecords()
	s.routeWebhooks()
	s.routeUpload()
	s.describe(huma.Operation{
		OperationID: "issue-key", Method: http.MethodPost, Path: "/v1/idempotency-keys", DefaultStatus: http.StatusCreated,
		Summary: "Get an Idempotency-Key that has no effect after it has expired", Tags: []string{"keys"},
		Responses: s.json("201", reflect.TypeFor[issuedKey]()),
	}, Write, issue, s.once.Issuer())
	delete(s.api.OpenAPI().Components.Schemas.Map(), "ErrorModel") // transform replaces it
	s.routes["GET /openapi.json"], s.routes["GET /metrics"] = route{Read, plain}, route{Read, plain}
	s.mux.Handle("GET /metrics", s.metrics.handler())
	document, err := s.api.OpenAPI().MarshalJSON()
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			newProblem("internal", "").write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document) // the client is gone
	})
}

// jsonFormat reads and writes JSON. It does not escape < and >, as the records do not.
var jsonFormat = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: func(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	return d.Decode(v)
}}

// issuedKey is the answer of idempotency.Middleware.Issuer.
type issuedKey struct {
	Key     string `json:"key"`
	Expires string `json:"expires" format:"date-time"`
}

// schemaName returns the name of a type in the OpenAPI document: the name of the type, after that of its package if it is
// not one of this package.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	pkg := path.Base(t.PkgPath())
	if t.Name() == "" || pkg == "." || pkg == "serve" || pkg == "v2" {
		return name
	}
	return string(pkg[0]-'a'+'A') + pkg[1:] + name
}

// problems describes the problems that every operation can answer with.
func (s *Server) problems() *huma.Response {
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[problem](), true, "Problem")
	content := map[string]*huma.MediaType{"application/problem+json": {Schema: schema}}
	return &huma.Response{Description: "a problem of RFC 9457", Content: content}
}

// json describes answers with a status and a type.
func (s *Server) json(status string, t reflect.Type) map[string]*huma.Response {
	schema := s.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
	return map[string]*huma.Response{status: {Description: "done", Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}}
}

// text describes answers whose form is not JSON.
func text(contentType, description string) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: description, Content: map[string]*huma.MediaType{contentType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
}

// prepare completes an operation, and notes what the guard must know about it.
func (s *Server) prepare(op *huma.Operation, scope Scope, k kind) {
	s.routes[op.Method+" "+op.Path] = route{scope, k}
	op.Security = []map[string][]string{{"token": {string(scope)}}}
	op.Description = "Scope: " + string(scope) + ". " + op.Description
	if op.Responses == nil {
		op.Responses = make(map[string]*huma.Response)
	}
	op.Responses["default"] = s.problems()
	op.MaxBodyBytes, op.BodyReadTimeout = maxBody, -1 // the guard bounds both
	if k != issue && op.Method != http.MethodGet {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: idempotency.Header, In: "header", Required: op.Method != http.MethodDelete && op.Method != http.MethodPut,
			Description: "names the request: each repeat has the same effect and the same answer",
			Schema:      &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(idempotency.MaxKeyBytes + 2)},
		})
	}
}

// describe adds a route whose handler reads its request itself.
func (s *Server) describe(op huma.Operation, scope Scope, k kind, handler http.Handler) {
	s.prepare(&op, scope, k)
	s.api.OpenAPI().AddOperation(&op)
	s.mux.Handle(op.Method+" "+op.Path, handler)
}

// handle adds a route with a typed handler.
func handle[I, O any](s *Server, op huma.Operation, scope Scope, k kind, handler func(context.Context, *I) (*O, error)) {
	s.prepare(&op, scope, k)
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, s.problemOf(ctx, err)
		}
		return out, nil
	})
}

// answer is the answer of a handler with a body.
type answer[T any] struct {
	Location string `header:"Location" doc:"path of the new resource"`
	ETag     string `header:"ETag" doc:"the version of the policy"`
	Body     T
}

// body returns an answer with a body.
func body[T any](value T, err error) (*answer[T], error) {
	if err != nil {
		return nil, err
	}
	return &answer[T]{Body: value}, nil
}

// Named is the part of a request that names a crawl.
type Named struct {
	Crawl string `path:"crawl" pattern:"^[A-Za-z0-9._-]+$" maxLength:"64" doc:"name of the crawl"`
}
