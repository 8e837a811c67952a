# A static binary, the certificates of public authorities, and a user without rights.
#
#   docker build --tag crawler --build-arg VERSION="$(git describe --tags --always)" .
#   docker run --rm --volume "$PWD/crawls:/crawls" crawler crawl --max-pages 20 https://go.dev/
#
# Crawls are kept in /crawls; the user is 65532, who must be able to write there.
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN make build VERSION="$VERSION" && mkdir /crawls

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/crawler /usr/bin/crawler
COPY --from=build --chown=65532:65532 /crawls /crawls
COPY LICENSE /
USER 65532:65532
WORKDIR /crawls
ENTRYPOINT ["crawler"]
