// A server whose answers are known in advance, to measure load generators with: HTTP/1.1 with keep-alive, one thread,
// epoll, every token sent at its time on an absolute schedule (CLOCK_MONOTONIC).
//
// usage: sse_server PORT LOG [ttft_us [itl_us [tokens [batch]]]]
// The body's "max_tokens" or "max_completion_tokens" goes before `tokens`. With `batch` the server sends so many tokens
// at a time, as fast as the client takes them, and keeps no schedule. Any GET is answered with a list of one model.
// LOG: {uint64 bytes used}, then for each request in the order in which they came
// {char x_request_id[40], uint64 received_ns, uint64 count, uint64 sent_ns[count]}; 0 where a token was not sent.
// The "id" in an answer ends in the request's place in that order, as 16 hexadecimal digits.
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINES_MAX (1 << 16)
#define IN_MAX (1 << 18)
#define SEND_BATCH_MAX 64
#define SPIN_NS 60000
#define LOG_BYTES (1ull << 32)
#define REQUEST_ID_MAX 40
#define EVENT_MAX 512

// What the log holds of a request.
typedef struct {
    char request_id[REQUEST_ID_MAX];
    uint64_t received, count, sent[];
} Truth;

typedef struct {
    int fd, heap_place, wants_out, in_length, out_offset;
    int tokens, next_token, ending, end_length;
    uint64_t due;
    Truth *truth;
    char *tokens_block, end[4 * EVENT_MAX], in[IN_MAX + 1];
} Line;

static Line *lines[LINES_MAX], *heap[LINES_MAX];
static int heap_size, epoll_fd;
static uint64_t ttft_ns = 100000000, itl_ns = 20000000;
static int tokens_default = 100, batch;
static int token_length;
static uint64_t *log_used, requests;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// The lines with a token to come, the earliest first.
static void put(int place, Line *line) { heap[place] = line; line->heap_place = place; }
static void sift_up(int place) {
    Line *line = heap[place];
    for (int above; place > 0 && heap[above = (place - 1) / 2]->due > line->due; place = above) put(place, heap[above]);
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

static int event(char *to, const char *id, const char *choices_and_usage) {
    char text[EVENT_MAX];
    snprintf(text, sizeof text, "data: {\"id\":\"%s\",\"object\":\"chat.completion.chunk\",\"created\":1764550000,\"model\":"
             "\"m\",\"choices\":%s}\n\n", id, choices_and_usage);
    return chunk(to, text);
}

// The events of one answer. Its tokens are all the same, so a block of them can be sent at once.
static void write_events(Line *line) {
    char id[40], usage[160];
    sprintf(id, "chatcmpl-%016llx", (unsigned long long)requests++);
    if (!line->tokens_block) line->tokens_block = malloc(EVENT_MAX * (batch ? batch : 1));
    token_length = event(line->tokens_block, id,
                         "[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\" tok\"},\"finish_reason\":null}]");
    for (int i = 1; i < batch; i++) memcpy(line->tokens_block + i * token_length, line->tokens_block, token_length);
    sprintf(usage, "[],\"usage\":{\"prompt_tokens\":32,\"completion_tokens\":%d,\"total_tokens\":%d}", line->tokens,
            line->tokens + 32);
    int length = event(line->end, id, "[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]");
    length += event(line->end + length, id, usage);
    length += chunk(line->end + length, "data: [DONE]\n\n");
    line->end_length = length + sprintf(line->end + length, "0\r\n\r\n");
}

static void open_truth(Line *line, const char *request_id, uint64_t received) {
    uint64_t bytes = sizeof(Truth) + line->tokens * sizeof(uint64_t);
    if (*log_used + bytes > LOG_BYTES) exit((fprintf(stderr, "sse_server: the log is full\n"), 1));
    Truth *truth = line->truth = (Truth *)((char *)log_used + *log_used);
    for (int i = 0; request_id && i < REQUEST_ID_MAX && request_id[i] > ' '; i++) truth->request_id[i] = request_id[i];
    truth->received = received;
    truth->count = line->tokens;
    *log_used += bytes;
}

static void close_line(Line *line) {
    drop(line);
    close(line->fd);
    lines[line->fd] = NULL;
    free(line->tokens_block);
    free(line);
}
static void want_out(Line *line, int wanted) {
    if (line->wants_out == wanted) return;
    line->wants_out = wanted;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.fd = line->fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, line->fd, &event);
}

// Sends what the socket takes; called again when it takes more.
static void flood(Line *line) {
    for (int rounds = 4; rounds--;) {
        int count = line->tokens - line->next_token < batch ? line->tokens - line->next_token : batch;
        const char *from = line->ending ? line->end : line->tokens_block;
        int length = line->ending ? line->end_length : count * token_length;
        int sent = send(line->fd, from + line->out_offset, length - line->out_offset, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN) want_out(line, 1);
            return;
        }
        line->out_offset += sent;
        if (line->out_offset < length) return want_out(line, 1);
        line->out_offset = 0;
        if (line->ending) return want_out(line, 0);
        uint64_t time = now();
        for (; count--; line->next_token++) line->truth->sent[line->next_token] = time;
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
        const char *id_field = strcasestr(line->in, "\r\nx-request-id: ");
        long tokens = number_after(body, "\"max_tokens\":", tokens_default);
        tokens = number_after(body, "\"max_completion_tokens\":", tokens);
        line->tokens = tokens < 1 ? 1 : tokens;
        line->next_token = line->out_offset = line->ending = 0;
        open_truth(line, id_field && id_field < body ? id_field + strlen("\r\nx-request-id: ") : NULL, time);
        write_events(line);
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
        line->truth->sent[line->next_token] = now();
        if (send(line->fd, line->tokens_block, token_length, MSG_NOSIGNAL | MSG_DONTWAIT) != token_length) {
            shutdown(line->fd, SHUT_RDWR);
            drop(line);
        } else if (++line->next_token == line->tokens) {
            drop(line);
            send(line->fd, line->end, line->end_length, MSG_NOSIGNAL | MSG_DONTWAIT);
        } else {
            line->due = line->truth->received + ttft_ns + line->next_token * itl_ns;
            sift_down(0);
        }
    }
}

static void accept_lines(int listening) {
    for (int fd, one = 1; (fd = accept4(listening, 0, 0, SOCK_NONBLOCK)) >= 0;) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Line *line = calloc(1, sizeof(Line));
        line->fd = fd;
        line->heap_place = -1;
        lines[fd] = line;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

int main(int count, char **arguments) {
    if (count < 3) return fprintf(stderr, "usage: sse_server PORT LOG [ttft_us [itl_us [tokens [batch]]]]\n"), 2;
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int log_fd = open(arguments[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (log_fd < 0 || ftruncate(log_fd, LOG_BYTES)) return perror(arguments[2]), 1;
    log_used = mmap(NULL, LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, log_fd, 0);
    if (log_used == MAP_FAILED) return perror("mmap"), 1;
    *log_used = sizeof *log_used;
    if (count > 3) ttft_ns = atol(arguments[3]) * 1000ull;
    if (count > 4) itl_ns = atol(arguments[4]) * 1000ull;
    if (count > 5) tokens_default = atoi(arguments[5]);
    if (count > 6) batch = atoi(arguments[6]) < SEND_BATCH_MAX ? atoi(arguments[6]) : SEND_BATCH_MAX;

    int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listening, (void *)&address, sizeof address)) return perror("bind"), 1;
    listen(listening, 4096);
    epoll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening}, ready[256];
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listening, &event);
    for (;;) {
        send_due_tokens();
        struct timespec wait = {0, 0}, *limit = NULL;
        if (heap_size) {
            int64_t left = (int64_t)(heap[0]->due - now());
            // The last stretch is spent turning: a sleeping thread wakes up too late.
            if (left > SPIN_NS) {
                left -= SPIN_NS / 2;
                wait = (struct timespec){left / 1000000000, left % 1000000000};
            }
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
}
