// A server whose answers are known in advance, to measure load generators with: HTTP/1.1 with keep-alive, one thread,
// epoll, every token sent at its time on an absolute schedule (CLOCK_MONOTONIC).
//
// usage: sse_server PORT LOG [ttft_us [itl_us [tokens [batch]]]]
// The body's "max_tokens" or "max_completion_tokens" goes before `tokens`. With `batch` the server sends so many tokens
// at a time, as fast as the client takes them, and keeps no schedule. Any GET is answered with a list of one model.
// At SIGTERM it writes LOG: for each finished request {uint64 received_ns, uint64 count, uint64 sent_ns[count]}.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINES_MAX (1 << 16)
#define IN_MAX (1 << 18)
#define SEND_BATCH_MAX 64
#define SPIN_NS 60000

typedef struct {
    int fd, heap_place, wants_out, in_length, out_offset;
    int tokens, next_token, ending;
    uint64_t received, due, *sent;
    char in[];
} Line;

static Line *lines[LINES_MAX], *heap[LINES_MAX];
static int heap_size, epoll_fd;
static uint64_t ttft_ns = 100000000, itl_ns = 20000000;
static int tokens_default = 100, batch;
static char token[2048], end[4096], *tokens_block;
static int token_length;
static FILE *log_file;
static volatile sig_atomic_t stopped;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// The lines with a token to come, the earliest first.
static void put(int place, Line *line) { heap[place] = line; line->heap_place = place; }
static void sift_up(int place) {
    Line *line = heap[place];
    for (; place > 0 && heap[(place - 1) / 2]->due > line->due; place = (place - 1) / 2) put(place, heap[(place - 1) / 2]);
    put(place, line);
}
static void sift_down(int place) {
    Line *line = heap[place];
    for (int child; (child = 2 * place + 1) < heap_size; place = child) {
        if (child + 1 < heap_size && heap[child + 1]->due < heap[child]->due) child++;
        if (heap[child]->due >= line->due) break;
        put(place, heap[child]);
    }
    put(place, line);
}
static void push(Line *line) { heap[heap_size] = line; sift_up(heap_size++); }
static void drop(Line *line) {
    int place = line->heap_place;
    if (place < 0) return;
    line->heap_place = -1;
    if (place == --heap_size) return;
    put(place, heap[heap_size]);
    sift_up(place);
    sift_down(heap[place]->heap_place == place ? place : heap[place]->heap_place);
}

static int chunk(char *to, const char *text) { return sprintf(to, "%zx\r\n%s\r\n", strlen(text), text); }

// The last events of an answer of so many tokens, into `end`; their length.
static int make_end(int tokens) {
    static const char head[] = "data: {\"id\":\"chatcmpl-8f0c1d2e3a4b5c6d7e8f90a1b2c3d4e5\",\"object\":"
                               "\"chat.completion.chunk\",\"created\":1764550000,\"model\":\"m\",\"choices\":[";
    char text[1024];
    sprintf(text, "%s{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n", head);
    int length = chunk(end, text);
    sprintf(text, "%s],\"usage\":{\"prompt_tokens\":32,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n", head, tokens,
            tokens + 32);
    length += chunk(end + length, text);
    length += chunk(end + length, "data: [DONE]\n\n");
    return length + sprintf(end + length, "0\r\n\r\n");
}

static void close_line(Line *line) {
    drop(line);
    close(line->fd);
    lines[line->fd] = NULL;
    free(line->sent);
    free(line);
}
static void want_out(Line *line, int wanted) {
    if (line->wants_out == wanted) return;
    line->wants_out = wanted;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.fd = line->fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, line->fd, &event);
}
static void finished(Line *line) {
    uint64_t head[2] = {line->received, line->tokens};
    fwrite(head, sizeof head, 1, log_file);
    fwrite(line->sent, sizeof *line->sent, line->tokens, log_file);
    free(line->sent);
    line->sent = NULL;
}

// Sends what the socket takes; called again when it takes more.
static void flood(Line *line) {
    for (int rounds = 4; rounds--;) {
        int count = line->tokens - line->next_token < batch ? line->tokens - line->next_token : batch;
        const char *from = line->ending ? end : tokens_block;
        int length = line->ending ? make_end(line->tokens) : count * token_length;
        int sent = send(line->fd, from + line->out_offset, length - line->out_offset, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN) want_out(line, 1);
            return;
        }
        line->out_offset += sent;
        if (line->out_offset < length) return want_out(line, 1);
        line->out_offset = 0;
        if (line->ending) {
            finished(line);
            return want_out(line, 0);
        }
        uint64_t time = now();
        for (; count--; line->next_token++) line->sent[line->next_token] = time;
        line->ending = line->next_token == line->tokens;
    }
    want_out(line, 1);
}

static long number_after(const char *text, const char *key, long otherwise) {
    const char *found = strstr(text, key);
    return found ? atol(found + strlen(key)) : otherwise;
}

static void answer_get(Line *line) {
    static const char body[] = "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\",\"max_model_len\":32768}]}";
    char answer[512];
    int length = sprintf(answer, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                         sizeof body - 1, body);
    send(line->fd, answer, length, MSG_NOSIGNAL);
}

// One whole request is in the buffer: start its answer.
static void handle(Line *line) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\nserver: truth\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        "transfer-encoding: chunked\r\n\r\n";
    line->in[line->in_length] = 0;
    char *body = strstr(line->in, "\r\n\r\n");
    if (!body) return;
    body += 4;
    const char *length_field = strcasestr(line->in, "\r\ncontent-length:");
    int total = body - line->in + (length_field && length_field < body ? atol(length_field + 17) : 0);
    if (line->in_length < total) return;
    uint64_t time = now();
    if (!strncmp(line->in, "GET ", 4)) {
        answer_get(line);
    } else {
        long tokens = number_after(body, "\"max_completion_tokens\":", number_after(body, "\"max_tokens\":", tokens_default));
        line->tokens = tokens < 1 ? 1 : tokens;
        line->next_token = line->out_offset = line->ending = 0;
        line->received = time;
        free(line->sent);
        line->sent = malloc(line->tokens * sizeof *line->sent);
        send(line->fd, head, sizeof head - 1, MSG_NOSIGNAL);
        if (batch) {
            flood(line);
        } else {
            line->due = time + ttft_ns;
            push(line);
        }
    }
    memmove(line->in, line->in + total, line->in_length - total);
    line->in_length -= total;
}

static void send_due_tokens(void) {
    for (int most = 64; most-- && heap_size && heap[0]->due <= now();) {
        Line *line = heap[0];
        line->sent[line->next_token] = now();
        if (send(line->fd, token, token_length, MSG_NOSIGNAL | MSG_DONTWAIT) != token_length) {
            shutdown(line->fd, SHUT_RDWR);
            drop(line);
        } else if (++line->next_token == line->tokens) {
            drop(line);
            send(line->fd, end, make_end(line->tokens), MSG_NOSIGNAL | MSG_DONTWAIT);
            finished(line);
        } else {
            line->due = line->received + ttft_ns + line->next_token * itl_ns;
            sift_down(0);
        }
    }
}

static void accept_lines(int listening) {
    for (int fd, one = 1; (fd = accept4(listening, 0, 0, SOCK_NONBLOCK)) >= 0;) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Line *line = calloc(1, sizeof(Line) + IN_MAX + 1);
        line->fd = fd;
        line->heap_place = -1;
        lines[fd] = line;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

static void stop(int number) { (void)number; stopped = 1; }

int main(int count, char **arguments) {
    if (count < 3) return fprintf(stderr, "usage: sse_server PORT LOG [ttft_us [itl_us [tokens [batch]]]]\n"), 2;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, stop);
    prctl(PR_SET_TIMERSLACK, 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    log_file = fopen(arguments[2], "wb");
    if (!log_file) return perror("log"), 1;
    setvbuf(log_file, NULL, _IOFBF, 1 << 20);
    if (count > 3) ttft_ns = atol(arguments[3]) * 1000ull;
    if (count > 4) itl_ns = atol(arguments[4]) * 1000ull;
    if (count > 5) tokens_default = atoi(arguments[5]);
    if (count > 6) batch = atoi(arguments[6]) < SEND_BATCH_MAX ? atoi(arguments[6]) : SEND_BATCH_MAX;

    char text[1024];
    sprintf(text, "data: {\"id\":\"chatcmpl-8f0c1d2e3a4b5c6d7e8f90a1b2c3d4e5\",\"object\":\"chat.completion.chunk\",\"created\":"
                  "1764550000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\" tok\"},"
                  "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    token_length = chunk(token, text);
    tokens_block = malloc(token_length * SEND_BATCH_MAX);
    for (int i = 0; i < SEND_BATCH_MAX; i++) memcpy(tokens_block + i * token_length, token, token_length);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listening, (void *)&address, sizeof address)) return perror("bind"), 1;
    listen(listening, 4096);
    epoll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening}, ready[256];
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listening, &event);
    while (!stopped) {
        send_due_tokens();
        struct timespec wait = {0, 0}, *limit = NULL;
        if (heap_size) {
            int64_t left = (int64_t)(heap[0]->due - now());
            // The last stretch is spent turning: a sleeping thread wakes up too late.
            if (left > SPIN_NS) wait.tv_sec = (left - SPIN_NS / 2) / 1000000000, wait.tv_nsec = (left - SPIN_NS / 2) % 1000000000;
            limit = &wait;
        }
        int found = epoll_pwait2(epoll_fd, ready, 256, limit, NULL);
        for (int i = 0; i < found; i++) {
            if (ready[i].data.fd == listening) {
                accept_lines(listening);
                continue;
            }
            Line *line = lines[ready[i].data.fd];
            if (!line) continue;
            if (ready[i].events & (EPOLLHUP | EPOLLERR)) {
                close_line(line);
                continue;
            }
            if (ready[i].events & EPOLLIN) {
                int got = recv(line->fd, line->in + line->in_length, IN_MAX - line->in_length, 0);
                if (got == 0 || (got < 0 && errno != EAGAIN)) {
                    close_line(line);
                    continue;
                }
                if (got > 0) line->in_length += got, handle(line);
            }
            if (ready[i].events & EPOLLOUT && batch) flood(line);
        }
    }
    return fclose(log_file) ? 1 : 0;
}
