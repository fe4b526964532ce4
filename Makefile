# SPDX-License-Identifier: Apache-2.0
# The whole build. `make help` lists the targets; V=1 shows the commands.
#
# Everything made goes to $(BUILD), objects to a folder of it that is named after the compiler and
# the sanitizers, so that objects of different flags never mix:
#
#     make check SANITIZE=address,undefined CC=clang     ->  build/clang-address-undefined/
#
# Your own flags go into CFLAGS and LDFLAGS; WERROR=1 makes warnings errors. STATIC_BLAS=1 links into the
# daemon the part of OpenBLAS that it calls, which is a quarter of the library's size with all its kernels.
# -g1 tells a backtrace the functions and lines; CFLAGS='-Og -g' tells a debugger the variables too, which
# takes half as long again to build.

BUILD    ?= build
SANITIZE ?=
CFLAGS   ?= -O2 -g1
LISTEN   ?= 127.0.0.1:8080
PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
UNITDIR  ?= $(PREFIX)/lib/systemd/system
JOBS     ?= $(shell nproc)
FUZZ_SECONDS ?= 60
PROBLEMS ?= 10000

comma := ,
space := $(subst ,, )
COMPILER := $(subst $(space),-,$(notdir $(CC)))
B     := $(BUILD)/$(COMPILER)$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))

# ------------------------------------------------------------------------------------- sources --
# Make finds new files by itself: lib/*/*.c, server/*/*.c, server/*/*/*.c, tests/*/test_*.c, tests/support/*.c,
# tests/bench/{bench,load,traffic}*.c, tests/fuzz/fuzz_*.c.

MACHINE     := $(shell $(CC) -dumpmachine 2>/dev/null || uname -m)
KERNELS     := $(if $(filter x86_64%,$(MACHINE)),avx512 avx512_bf16 vnni avx2 amx) $(if $(filter aarch64%,$(MACHINE)),neon_bf16) \
               generic dispatch
LIB_SRC     := $(filter-out lib/kernels/% lib/mpi/%,$(wildcard lib/*/*.c)) $(KERNELS:%=lib/kernels/%.c)
MPI_SRC     := $(wildcard lib/mpi/*.c)
REFERENCE_SRC := $(wildcard server/cli/reference/*.c)
SERVER_SRC  := $(filter-out $(REFERENCE_SRC),$(wildcard server/*/*.c server/*/*/*.c))
PAGE_FILES  := $(sort $(wildcard server/explorer/index.html $(addprefix server/explorer/*/*.,html css js svg)))
PRELOAD_SRC := $(wildcard tests/support/failing_malloc.c tests/support/injected.c)
MODELS_LACKED := $(if $(filter x86_64%,$(MACHINE)),,matrix_model dots_model) $(if $(filter aarch64%,$(MACHINE)),,squares_model)
SUPPORT_SRC := $(filter-out $(PRELOAD_SRC) tests/support/group_main.c $(MODELS_LACKED:%=tests/support/%.c),$(wildcard tests/support/*.c))
TEST_SRC    := $(wildcard tests/*/test_*.c)
FUZZ_SRC    := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_SRC   := $(wildcard tests/bench/bench_*.c)
PEER_SRC    := tests/bench/peer_openblas.c tests/bench/peer_products.c tests/bench/peer_onnxruntime_bert.c $(if $(wildcard /usr/include/dnnl.h),tests/bench/peer_onednn.c)
RIVAL_SRC   := $(addprefix tests/bench/,own.c peers.c yardstick.c machine.c ratio.c)
LOAD_SRC    := $(wildcard tests/bench/load_*.c)
TRAFFIC_SRC := $(wildcard tests/bench/traffic*.c)
C_FILES     := $(wildcard lib/*.h lib/*/*.[ch] server/main.c server/*/*.[ch] server/*/*/*.[ch] tests/*/*.[ch])

KERNEL_OBJ  := $(KERNELS:%=$B/lib/kernels/%.o)
LIB_OBJ     := $(LIB_SRC:%.c=$B/%.o)
SERVER_OBJ  := $(SERVER_SRC:%.c=$B/%.o) $B/server/explorer/page_bytes.o $B/server/explorer/docs_bytes.o
SUPPORT_OBJ := $(SUPPORT_SRC:%.c=$B/%.o)
PRELOAD     := $(PRELOAD_SRC:%.c=$B/%.so)
OUTER       := tests/http/% tests/faults/% tests/deploy/% tests/page/%
INNER_SRC   := $(filter-out $(OUTER),$(TEST_SRC))
PAGE_SRC    := $(filter tests/page/%,$(TEST_SRC))
REPLAYS     := $(FUZZ_SRC:%.c=$B/%)

# A test with a main() is a separate program. The others of a folder are one, $B/tests/FOLDER/tests, which is told
# the group to run; $B/tests/FOLDER/test_NAME is one of them alone. With SANITIZE=thread, those that have threads are one.
OWN_SRC     := $(shell grep -l '^int main\>' $(TEST_SRC) /dev/null)
GROUP_SRC   := $(filter-out $(OWN_SRC),$(TEST_SRC))
THREADED_SRC = $(shell grep -l '<pthread.h>' $(INNER_SRC) /dev/null)
folders_of   = $(sort $(foreach source,$(filter-out $(OWN_SRC),$1),$B/$(dir $(source))tests))
programs_of  = $(call folders_of,$1) $(patsubst %.c,$B/%,$(filter $(OWN_SRC),$1))
ALONE       := $(TEST_SRC:%.c=$B/%)
TESTS       := $(call programs_of,$(TEST_SRC))
THREADED     = $B/tests/threaded $(patsubst %.c,$B/%,$(filter $(OWN_SRC),$(THREADED_SRC)))
BENCHES     := $(BENCH_SRC:%.c=$B/%)
LOADS       := $(LOAD_SRC:%.c=$B/%)
TOOLS       := $B/tests/tokenizers/encode_lines
PEERS       := $(PEER_SRC:%.c=$B/%)
DAEMON      := $(if $(SANITIZE),$B/attnd,$(BUILD)/attnd)

# --------------------------------------------------------------------------------------- flags --

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
            -Werror=implicit-function-declaration $(if $(WERROR),-Werror)
SANITIZER := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)

# These flags make a fault of ours harder to use: addresses that change, canaries, lengths that glibc
# checks, tables that are read-only once the program is linked. Sanitizers check more than these.
# glibc checks lengths only in optimized code, and to level 3 from gcc 12 and clang 9 on.
OPTIMIZED := $(filter-out -O0,$(filter -O%,$(CFLAGS)))
FORTIFY   := $(if $(OPTIMIZED),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(shell echo '\#include <features.h>' | \
                 $(CC) -O2 -D_FORTIFY_SOURCE=3 -Werror -E - >/dev/null 2>&1 && echo 3 || echo 2))
BRANCHES  := $(if $(filter x86_64% i686%,$(MACHINE)),-fcf-protection) \
             $(if $(filter aarch64%,$(MACHINE)),-mbranch-protection=standard)
HARDENED   = $(if $(SANITIZE),,-fPIE -fstack-protector-strong -fstack-clash-protection $(BRANCHES) $(FORTIFY))
HARDENED_LINK := $(if $(SANITIZE),,-pie -Wl,-z,relro,-z,now,-z,noexecstack)

# Names of files in the program begin at the root of the sources, or at the folder of what is made, so that the same
# sources give the same bytes in any folder.
ANY_FOLDER := -ffile-prefix-map=$(CURDIR)=.$(if $(filter-out build,$(BUILD)), -ffile-prefix-map=$(BUILD)=build)
FLAGS     = -std=c11 -D_GNU_SOURCE $(ANY_FOLDER) $(CFLAGS) $(WARNINGS) $(SANITIZER) $(HARDENED)

# make asks pkg-config when the first recipe needs the answer, because make may run before the packages
# are there, and then keeps the answer. The library sees no folder but its own, so that the compiler guards
# the layers too.
package = $(call kept,pkg-config$(subst $(space),,$1),$1)
kept    = $(if $($1),,$(eval $1 := $(shell pkg-config $2)))$($1)
SERVER_PACKAGES := libmicrohttpd libcjson openblas zlib gnutls libseccomp libutf8proc oniguruma
TEST_PACKAGES   := libcurl cmocka
SERVER_CFLAGS = $(call package,--cflags $(SERVER_PACKAGES))
SERVER_LIBS   = $(call package,--libs $(SERVER_PACKAGES)) -lpthread -lm
DAEMON_LIBS   = $(if $(STATIC_BLAS),$(subst -lopenblas,-Wl$(comma)-Bstatic -lopenblas -Wl$(comma)-Bdynamic,$(SERVER_LIBS)),$(SERVER_LIBS))
TEST_CFLAGS   = $(SERVER_CFLAGS) $(call package,--cflags $(TEST_PACKAGES))
TEST_LIBS     = $(SERVER_LIBS) $(call package,--libs $(TEST_PACKAGES))

# The objects of the library are both the daemon's and those of libattn.so, so they may lie anywhere; none of its
# functions is replaced by a program's.
SHARED_FLAGS := -fPIC -fno-semantic-interposition

$B/lib/%.o:         MODULE_FLAGS = -Ilib $(SHARED_FLAGS) $(COVERED)
MPI_CFLAGS          = $(subst -I,-isystem ,$(call package,--cflags ompi-c))
$B/lib/mpi/%.o:     MODULE_FLAGS = -Ilib -Iserver $(MPI_CFLAGS)
$B/server/%.o:      MODULE_FLAGS = -Ilib -Iserver $(SERVER_CFLAGS) $(COVERED)
# cmocka gives each test and fixture a state, which few want.
$B/tests/%.o:       MODULE_FLAGS = -Ilib -Iserver -Itests/support -Wno-unused-parameter $(TEST_CFLAGS)

# These tests compute little themselves, and most are compiled more often than they run: optimizing them takes half of
# the time to compile them. Flags that are given to make stay as they are.
QUICK_TESTS := $(foreach folder,deploy faults fuzz http page unit,$B/tests/$(folder)/%.o)
$(QUICK_TESTS): private CFLAGS := $(CFLAGS:-O2=-O0)
$(QUICK_TESTS): private FORTIFY := $(if $(filter -O2,$(CFLAGS)),,$(FORTIFY))

# A yardstick and a peer must be as fast as this machine lets them.
$B/tests/bench/yardstick.o:     MODULE_FLAGS = -O3 -ffp-contract=fast -Wno-psabi
$B/tests/bench/peer_openblas.o: MODULE_FLAGS = -O3 -march=native -ffast-math $(call package,--cflags openblas)
$B/tests/bench/peer_products.o: MODULE_FLAGS = $(call package,--cflags openblas)

# One source of kernels, and a set of flags for each table. lib/kernels/dispatch.c asks the CPU for the
# features that are named here; change both together.
# clang needs many minutes for UBSan's checks in the unrolled code here. gcc's build has these checks, with
# -O1: with -O3 they take gcc three and a half minutes. gcc spends a third of its time, where it does not
# give up, on telling a debugger where each variable is in each instruction; the instructions are the same.
# Canaries and checked lengths cost the kernels 3 to 5 %. All lengths in the kernels were checked before them.
# gcc aligns local arrays to a vector and reads them so, but not in the frames that AddressSanitizer keeps for use
# after return: kernels, which return no address, keep none.
KERNEL_FLAGS := -Ilib $(SHARED_FLAGS) $(if $(findstring address,$(SANITIZE)),-O1,-O3) -ffp-contract=fast -fno-math-errno \
                -fno-stack-protector -fno-stack-clash-protection -U_FORTIFY_SOURCE \
                $(if $(findstring clang,$(COMPILER)),-fno-sanitize=undefined,-fno-var-tracking-assignments \
                  $(if $(findstring address,$(SANITIZE)),--param=asan-use-after-return=0))
$B/lib/kernels/%.o:      MODULE_FLAGS = $(KERNEL_FLAGS)
$B/lib/kernels/avx2.o:   MODULE_FLAGS = $(KERNEL_FLAGS) -mavx2 -mfma -mf16c
$B/lib/kernels/avx512.o: MODULE_FLAGS = $(KERNEL_FLAGS) -mavx512f -mavx512dq -mavx512bw -mavx512vl \
                                        -mprefer-vector-width=512

# Matrix units, and the models of them in the tests, must give the same bits: no multiply-add but those that are written.
MATRIX_FLAGS := $(KERNEL_FLAGS) -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512 -ffp-contract=off
$B/lib/kernels/avx512_bf16.o:    MODULE_FLAGS = $(MATRIX_FLAGS) -mavx512bf16
$B/lib/kernels/vnni.o:           MODULE_FLAGS = $(MATRIX_FLAGS) -mavx512vnni
$B/lib/kernels/amx.o:            MODULE_FLAGS = $(MATRIX_FLAGS) -mamx-tile -mamx-bf16
$B/tests/support/matrix_model.o $B/tests/support/dots_model.o: MODULE_FLAGS = $(MATRIX_FLAGS) -Itests/support
$B/lib/kernels/neon_bf16.o:        MODULE_FLAGS = $(KERNEL_FLAGS) -ffp-contract=off -march=armv8.2-a+bf16
$B/tests/support/squares_model.o:  MODULE_FLAGS = $(KERNEL_FLAGS) -ffp-contract=off -Itests/support

# --------------------------------------------------------------------------------------- build --

# Of a thousand files, a process for each line and one for each folder take longer than many of the files.
Q := $(if $(V),,@)
tab := $(subst ,,	)
say = $(if $(V),,$(info $(space)$(space)$1$(tab)$2))
folder = $(if $(wildcard $(@D)/.),,$Qmkdir -p $(@D))

# The kernels take the compiler longest, and so they begin.
daemon: $B/server-packages $(KERNEL_OBJ) $(DAEMON)  ## the daemon, at build/attnd (what `make` does)

$(BUILD)/attnd: $B/attnd
	$Q cp -f $< $@

$B/attnd: $B/server/main.o $B/libserver.a $B/libattn.a
	$(call say,LINK,$@)
	$Q $(CC) $(FLAGS) $(HARDENED_LINK) $^ $(LDFLAGS) $(DAEMON_LIBS) -o $@

$B/libattn.a:    $(LIB_OBJ)
$B/libserver.a:  $(SERVER_OBJ)
$B/libsupport.a: $(SUPPORT_OBJ)
$B/%.a:
	$(call say,AR,$@)
	$Q rm -f $@ && $(AR) rcs $@ $^

# The number of the ABI is that of the soname, of the version of the symbols (lib/libattn.map) and of the program that
# loads it from Python: what programs were compiled with, the layout of structs too, changes with it alone.
LIBRARY := $B/libattn.so.1

library: $(LIBRARY) ## the attention library for other programs, at build/cc/libattn.so.1; needs a compiler alone

$(LIBRARY): $(LIB_OBJ) lib/libattn.map
	$(call say,LINK,$@)
	$Q $(CC) $(FLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=lib/libattn.map -Wl,-z,defs \
	    $(if $(SANITIZE),,-Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now$(comma)-z$(comma)noexecstack) $(LIB_OBJ) $(LDFLAGS) -lm -o $@

# attn-mpi is built where Open MPI is, and left out of what the tests run where it is not.
MPI := $(shell pkg-config --exists ompi-c 2>/dev/null && echo $(if $(SANITIZE),$B/attn-mpi,$(BUILD)/attn-mpi))

attn-mpi: $(or $(MPI),mpi-missing) ## attention over many machines as a job of Open MPI, at build/attn-mpi; `deploy/install-packages.sh mpi` installs what it needs

$(BUILD)/attn-mpi: $B/attn-mpi
	$Q cp -f $< $@

$B/attn-mpi: $(MPI_SRC:%.c=$B/%.o) $B/libserver.a $B/libattn.a
	$(call say,LINK,$@)
	$Q $(CC) $(FLAGS) $(HARDENED_LINK) $^ $(LDFLAGS) $(call package,--libs ompi-c) -lpthread -lm -o $@

mpi-missing:
	@echo 'attn-mpi is left out: it needs Open MPI, which `deploy/install-packages.sh mpi` installs'

define compile
	$(call say,CC,$<)
	$(folder)
	$Q $(CC) $(FLAGS) $(MODULE_FLAGS) -MMD -MP -c $< -o $@
endef
$B/lib/%.o: lib/%.c $B/flags
	$(compile)
$B/server/%.o: server/%.c $B/flags $B/server-packages
	$(compile)
$B/tests/%.o: tests/%.c $B/flags $B/test-packages
	$(compile)

$B/server/api/openapi.o: server/openapi.json

# The files of the page, few and packed, as one C file.
$B/server/explorer/page_bytes.c: server/explorer/pack-page server/explorer/embed-page $(PAGE_FILES) $B/page-files
	$(call say,PACK,$@)
	$Q rm -rf $(@D)/page && server/explorer/pack-page $(@D)/page $(PAGE_FILES)
	$Q server/explorer/embed-page PAGE $$(find $(@D)/page -type f | LC_ALL=C sort) > $@.new && mv $@.new $@
$B/server/explorer/%_bytes.o: $B/server/explorer/%_bytes.c $B/flags $B/server-packages
	$(compile)

# The pages of the reference, which the daemon serves at /docs: made of openapi.json, of the table of flags and of what
# commands say to --help, by a program over the other objects of the daemon.
REFERENCE_PROGRAM := $B/server/cli/reference/make_reference
REFERENCE_PAGES   := $(foreach page,calls types flags,$B/server/explorer/docs/$(page).md)

$B/libreference.a: $(filter-out %/docs_bytes.o,$(SERVER_OBJ))
	$Q rm -f $@ && $(AR) rcsT $@ $^

$(REFERENCE_PROGRAM): $(REFERENCE_SRC:%.c=$B/%.o) $B/libreference.a $B/libattn.a
	$(call say,LINK,$@)
	$Q $(CC) $(FLAGS) $(TEST_LINKER) $^ $(LDFLAGS) $(SERVER_LIBS) -o $@

$(REFERENCE_PAGES): $B/server/explorer/docs/%.md: $(REFERENCE_PROGRAM) server/openapi.json server/API.md
	$Q mkdir -p $(@D)
	$Q $< $* > $@.new && mv $@.new $@

$B/server/explorer/docs_bytes.c: server/explorer/embed-page $(REFERENCE_PAGES)
	$(call say,PACK,$@)
	$Q server/explorer/embed-page DOCS $(REFERENCE_PAGES) > $@.new && mv $@.new $@

reference: $(REFERENCE_PAGES) ## every operation, type and flag as Markdown, at build/reference/; a daemon serves it at /docs
	@mkdir -p $(BUILD)/reference && cp $(REFERENCE_PAGES) $(BUILD)/reference/

# Writes the line to the target if it differs from the line there: then what depends on it is made anew.
note = mkdir -p $B; echo '$1' | cmp -s - $@ || echo '$1' > $@

$B/flags: FORCE
	$Q $(call note,$(CC) $(FLAGS) $(KERNEL_FLAGS))

# A file that is gone changes the list, and nothing else.
$B/page-files: FORCE
	$Q $(call note,$(PAGE_FILES))

# Before the first file is compiled: are the packages there, and are they those of the last time?
missing = $(shell CC='$(CC)' deploy/install-packages.sh --missing $1)
demand = $(if $1,$(error attnd needs packages that are not installed. `make $2` installs them and goes on; \
             by hand: apt-get install --no-install-recommends $1))

$B/server-packages: FORCE
	$(call demand,$(call missing,build),run)
	$Q $(call note,$(call package,--modversion $(SERVER_PACKAGES)) $(SERVER_CFLAGS))

$B/test-packages: FORCE
	$(call demand,$(call missing,build build-tests),test)
	$Q $(call note,$(call package,--modversion $(SERVER_PACKAGES) $(TEST_PACKAGES)) $(TEST_CFLAGS))

TEST_LINKED := $B/libsupport.a $B/libserver.a $B/libattn.a

# gold halves the time to link a program of tests.
GOLD        := $(if $(filter cc gcc,$(COMPILER)),$(shell command -v ld.gold 2>/dev/null))
TEST_LINKER := $(if $(SANITIZE),,$(if $(GOLD),-fuse-ld=gold))

$(filter-out %/bench_json,$(BENCHES)): $(RIVAL_SRC:%.c=$B/%.o)

$(LOADS): $(TRAFFIC_SRC:%.c=$B/%.o) $(RIVAL_SRC:%.c=$B/%.o)

GROUP_MAIN := $B/tests/support/group_main.o
$(GROUP_SRC:%.c=$B/%) $(call folders_of,$(TEST_SRC)) $B/tests/threaded: $(GROUP_MAIN)
$B/tests/unit/tests $(filter $B/tests/unit/test_bench_%,$(ALONE)): $(TRAFFIC_SRC:%.c=$B/%.o) $(RIVAL_SRC:%.c=$B/%.o)

define folder_program
$B/tests/$1/tests: $(patsubst %.c,$B/%.o,$(filter tests/$1/%,$(GROUP_SRC))) $(TEST_LINKED)
	$$(link_tests)
endef
$(foreach folder,$(call folders_of,$(TEST_SRC)),$(eval $(call folder_program,$(folder:$B/tests/%/tests=%))))
$B/tests/threaded: $(patsubst %.c,$B/%.o,$(filter-out $(OWN_SRC),$(THREADED_SRC))) $(TEST_LINKED)
	$(link_tests)
$(ALONE) $(BENCHES) $(LOADS) $(TOOLS): $B/tests/%: $B/tests/%.o $(TEST_LINKED)
	$(link_tests)
define link_tests
	$(call say,LINK,$@)
	$Q $(CC) $(FLAGS) $(TEST_LINKER) $(filter %.o,$^) $(TEST_LINKED) $(LDFLAGS) $(TEST_LIBS) -o $@
endef

# Another reader of JSON, for comparison, if it is installed.
ifeq ($(shell pkg-config --exists simdjson 2>/dev/null && command -v $(CXX) >/dev/null && echo yes),yes)
$B/tests/bench/bench_json: $B/tests/bench/simdjson_reader.o
$B/tests/bench/bench_json: TEST_LIBS += $(call package,--libs simdjson) -lstdc++
$B/tests/bench/bench_json.o: MODULE_FLAGS += -DWITH_SIMDJSON
endif
$B/tests/bench/%.o: tests/bench/%.cpp
	$(call say,CXX,$<)
	$Q mkdir -p $(@D)
	$Q $(CXX) -std=c++17 -O3 -g $(call package,--cflags simdjson) -c $< -o $@

$(REPLAYS): $B/tests/fuzz/%: $B/tests/fuzz/%.o $B/tests/fuzz/replay.o $(TEST_LINKED)
	$(call say,LINK,$@)
	$Q $(CC) $(FLAGS) $(TEST_LINKER) $^ $(LDFLAGS) $(TEST_LIBS) -o $@

$B/tests/deploy/tests $B/tests/deploy/test_library $B/tests/deploy/test_pages $B/tests/deploy/test_packages $B/tests/deploy/test_python: | $(LIBRARY)
$B/tests/deploy/tests $B/tests/deploy/test_reference: | $(REFERENCE_PROGRAM)
$B/tests/deploy/tests $B/tests/deploy/test_mpi: | $(MPI)
$B/tests/http/tests $B/tests/http/test_equal: | $B/tests/bench/load_equal
$B/tests/http/tests $B/tests/http/test_sandbox_attempts: | $B/tests/support/injected.so
$(PRELOAD): $B/%.so: %.c $B/flags
	$(call say,LINK,$@)
	$Q mkdir -p $(@D)
	$Q $(CC) $(FLAGS) -fPIC -shared $< $(LDFLAGS) -ldl -o $@

# ------------------------------------------------------------------------------------- the two --

# The address that a client uses for LISTEN: `localhost`, :PORT and localhost:PORT are the loopback, as --listen takes
# them.
ADDRESS  := $(patsubst localhost,:8080,$(LISTEN:localhost:%=:%))
ADDRESS  := $(ADDRESS::%=127.0.0.1:%)
LOOPBACK := $(filter 127.% [::1]:%,$(ADDRESS))
BEARER   := $(if $(KEYS),-H \"Authorization: Bearer \$$KEY\" )
SET_KEY  := 'export KEY=...    \# what `attnd key new` printed for a line of $(KEYS) with the scope infer$(if $(MODELS),, or infer:stories260K)'
REQUEST  := $(if $(MODELS),curl -sS $(BEARER)http://$(ADDRESS)/v1/models,curl -sS http://$(ADDRESS)/v1/trace \
            -H 'Content-Type: application/json' $(BEARER)-d '{\"model\":\"stories260K\",\"text\":\"Once upon a time\",\"layers\":[1],\"weight_map\":{\"heads\":[4]}}')

# The address of the explorer and the request are printed when the daemon is ready, by a loop in the background that ends
# with the daemon: $$$$ is its process, because it takes the shell's place.
CHECK_RUN = deploy/check-run.sh '$@' '$(LISTEN)' '$(KEYS)' '$(MODELS)'
ANNOUNCE = while sleep 0.1 && kill -0 $$$$; do $(BUILD)/attnd health http://$(ADDRESS) && \
           printf '\n%s\n\n' 'http://$(ADDRESS)/' $(if $(KEYS),&& echo $(SET_KEY) )&& \
           printf '%s\n\n' "$(REQUEST)" && break; done 2>/dev/null

run: ## install what is missing, build, serve on 127.0.0.1:8080 (LISTEN=:18080 for another port, KEYS=FILE, MODELS=DIR for models of your own), then print the address of the explorer and a curl line
	@$(CHECK_RUN)
	@deploy/install-packages.sh build run
	@$(MAKE) --no-print-directory -j$(JOBS) daemon
	$(serve_it)

serve: ## the same with what is built already
	$(serve_it)

# The daemon serves a copy of the example models, because clients may add some: on the loopback, nowhere else. It serves
# MODELS as it is, and nobody adds to it.
define serve_it
@$(CHECK_RUN)
@$(if $(MODELS),,mkdir -p $(BUILD)/models && cp -Ru examples/models/. $(BUILD)/models)
@$(ANNOUNCE) & exec $(BUILD)/attnd --listen $(LISTEN) --models $(or $(MODELS),$(BUILD)/models) $(if $(LOOPBACK),$(if $(MODELS),,--model-control explicit )--shared-memory-prefix attnd-)$(if $(KEYS), --keys $(KEYS))
endef

story: ## install what is missing, build examples/story-teller.c, let it ask the daemon of `make run`
	@deploy/install-packages.sh build story
	@$(MAKE) --no-print-directory $(BUILD)/story-teller
	@$(BUILD)/story-teller http://$(ADDRESS)

$(BUILD)/story-teller: examples/story-teller.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) $< $(call package,--cflags --libs libcurl libcjson) -o $@

test: ## install what is missing, build, run all tests side by side; a few minutes
	@deploy/install-packages.sh build build-tests
	@$(MAKE) --no-print-directory -j$(JOBS) test-tools programs
	@tests/run $(BUILD)/$(COMPILER) plain

# They come while the first files are compiled: apt and dpkg use one core at most.
test-tools:
	@deploy/install-packages.sh test

test-sanitized: ## the same with ASan and UBSan, and where there are threads, or a daemon, with TSan
	@deploy/install-packages.sh build build-tests test
	@$(MAKE) --no-print-directory -j$(JOBS) $(TESTS)
	@$(MAKE) --no-print-directory -j$(JOBS) SANITIZE=address,undefined inner-programs
	@$(MAKE) --no-print-directory -j$(JOBS) SANITIZE=thread threaded-programs
	@tests/run $(BUILD)/$(COMPILER) sanitized

# -------------------------------------------------------------------------------------- checks --

check: programs ## the tests without installing; SANITIZE=address,undefined or thread
	@tests/run $(BUILD)/$(COMPILER) check '$(or $(SANITIZE),plain)'

check-twin: programs ## the tests beside the daemon of another build, TWIN=FILE: which of their answers differ, at build/cc/twin.log
	@rm -f $B/twin.log
	@ATTND_TEST_TWIN=$(abspath $(TWIN)) ATTND_TEST_TWIN_LOG=$(abspath $B/twin.log) tests/run $(BUILD)/$(COMPILER) check plain
	@sed -nE 's/^.*: ([0-9]+) answers compared, ([0-9]+) differ$$/\1 \2/p' $B/twin.log | \
	    awk '{ compared += $$1; differ += $$2 } END { print compared + 0 " answers compared, " differ + 0 " differ" }'

COUNT ?= 1000000

check-equal: $B/tests/bench/load_equal $(DAEMON) ## COUNT=1000000 answers of daemons under changing load, each equal to that of an idle one to the bit; half an hour
	@$< $(COUNT)

# The programs that tests/run runs. Programs that talk to the daemon from outside need no sanitizer of their own.
programs: inner-programs $(TESTS) $(PRELOAD) $(LIBRARY) attn-mpi ## build what the tests run, and run nothing
inner-programs: $(KERNEL_OBJ) $(DAEMON) $(call programs_of,$(INNER_SRC)) $(REPLAYS)
threaded-programs: $(KERNEL_OBJ) $(DAEMON) $(THREADED)

pictures: $B/tests/page/test_page_pictures daemon ## the pictures of server/explorer/README.md, made anew with Chromium
	@ATTND_TEST_PICTURES=server/explorer/pictures $<

# axe-core finds in a page what shuts out people who see or move little. It is not in Debian.
AXE_CORE ?= $(BUILD)/axe/node_modules/axe-core/axe.min.js

check-page: ## install what is missing, build, run all tests of the explorer in Chromium; pictures go to build/page
	@deploy/install-packages.sh build build-tests page
	@$(MAKE) --no-print-directory -j$(JOBS) daemon $(call programs_of,$(PAGE_SRC))
	@[ -e $(AXE_CORE) ] || ! command -v npm >/dev/null || \
	    npm install --prefix $(BUILD)/axe --no-audit --no-fund --silent axe-core@4.14.1 || true
	@AXE_CORE=$(abspath $(AXE_CORE)) SLOTS=$${SLOTS:-$(JOBS)} tests/run $(BUILD)/$(COMPILER) page

LONG_SRC := $(shell grep -l '"problem_count.h"' $(wildcard tests/laws/*.c tests/http/*.c) /dev/null) tests/unit/test_json_rows.c \
            tests/kernels/test_kernels_rows.c

check-long: $(LONG_SRC:%.c=$B/%) | $(DAEMON) ## the laws, each on PROBLEMS=10000 random problems; all floats to text and back, and through e^x in order; 100 swaps under load; 10 million chunks
	@for program in $^; do echo "== $$program"; \
	    ATTND_TEST_PROBLEMS=$(PROBLEMS) ATTND_TEST_FLOATS=all $$program || exit 1; done

# The library alone, cross-compiled and emulated: its kernels and laws, and others' numbers. It wants
# gcc-aarch64-linux-gnu, qemu-user, and of the architecture arm64 libc6, libcmocka-dev, libcjson-dev
# and libopenblas-pthread-dev.
ARM         := aarch64-linux-gnu
ARM_B       := $(BUILD)/$(ARM)-gcc
ARM_TESTS   := $(wildcard tests/kernels/test_*.c tests/laws/test_*.c tests/conformance/test_onnx_*.c) \
               tests/conformance/test_rope_scaling.c
ARM_SUPPORT := $(addprefix tests/support/,$(addsuffix .c,test kernel_tables squares_model reference reference_rope attention_case gradient_case difference guard \
               number tensor_file published_rotary))

check-aarch64: ## the library's tests as a 64-bit ARM program, under qemu
	@command -v $(ARM)-gcc qemu-aarch64 >/dev/null || \
	    { echo 'check-aarch64 needs $(ARM)-gcc and qemu-aarch64; see the Makefile'; exit 1; }
	@$(MAKE) --no-print-directory -j$(JOBS) CC=$(ARM)-gcc TEST_CFLAGS= SUPPORT_SRC='$(ARM_SUPPORT)' \
	    TEST_LINKED='$(ARM_B)/libsupport.a $(ARM_B)/libattn.a' \
	    TEST_LIBS='-lcmocka -lcjson -lopenblas -lm' $(ARM_TESTS:%.c=$(ARM_B)/%)
	@for program in $(ARM_TESTS:%.c=$(ARM_B)/%); do echo "== $$program"; \
	    ATTND_TEST_PROBLEMS=$${ATTND_TEST_PROBLEMS:-30} qemu-aarch64 -cpu max $$program || exit 1; done

check-reproducible: ## two builds of the daemon in folders of their own, which must be equal
	@deploy/check-reproducible.sh

sbom: $(BUILD)/attnd.spdx.json ## what the daemon is linked with, as SPDX, at build/attnd.spdx.json

$(BUILD)/attnd.spdx.json: $(BUILD)/attnd deploy/make-sbom.sh deploy/linked-packages.sh
	$Q deploy/make-sbom.sh $< $(if $(STATIC_BLAS),libopenblas-pthread-dev) > $@.new && mv $@.new $@

# gcov counts in the code alone, not in its tests nor in kernels, which are one source for many CPUs. tests/run goes on
# where a test fails: `make test` is there for them, and a program that counts is slow.
COVERAGE_FOLDERS ?= kernels laws conformance unit fuzz http faults
COVERAGE_SRC := $(filter $(COVERAGE_FOLDERS:%=tests/%/%),$(TEST_SRC))

coverage: ## how much of each room the suite runs, by gcov, at build/coverage; RAISE=yes raises the floors, COVERAGE_FOLDERS=unit runs a part
	@deploy/install-packages.sh build build-tests test
	@find $(BUILD)/coverage -name '*.gcda' -delete 2>/dev/null || true
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)/coverage CFLAGS='-O0 -g1 -DWITH_GCOV' WARNINGS= \
	    COVERED=--coverage LDFLAGS=--coverage coverage-programs
	@SLOW=4 tests/run $(BUILD)/coverage/$(COMPILER) coverage '$(COVERAGE_FOLDERS)' | tail -n 20
	@tests/check-coverage $(if $(RAISE),--raise) $(BUILD)/coverage/$(COMPILER)

coverage-programs: $(KERNEL_OBJ) $(DAEMON) $(call programs_of,$(COVERAGE_SRC)) $(PRELOAD) $(filter $(COVERAGE_FOLDERS:%=$B/tests/%/%),$(REPLAYS))

# Without kernels and optimization: neither changes what a program knows of the library.
ABI_LIBRARY := $(BUILD)/abi/$(COMPILER)/$(notdir $(LIBRARY))

abi-library:
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)/abi CFLAGS='-O0 -g' WARNINGS= KERNELS=dispatch \
	    LDFLAGS=-Wl,-z,undefs $(ABI_LIBRARY)

check-abi: abi-library ## is the ABI of libattn that of the last release, lib/libattn.abi?
	@tests/check-abi $(ABI_LIBRARY)

keep-abi: abi-library ## lib/libattn.abi anew, with a release; CONTRIBUTING.md says when
	@tests/check-abi --keep $(ABI_LIBRARY)

check-layers: ## who may include whom
	@tests/check-layers

check-pages: ## links, paths and lines of the pages
	@tests/check-pages

check-licences: ## the SPDX line of every source; tests/check-licences --add writes those that lack
	@tests/check-licences

lint: check-layers check-pages check-licences ## install what is missing; clang-format, clang-tidy, cppcheck, layers, pages, lengths, the ABI
	@deploy/install-packages.sh build lint
	@$(MAKE) --no-print-directory check-abi
	clang-format --dry-run -Werror $(C_FILES)
	LC_ALL=C tests/check-lengths $(C_FILES) $(filter %.js,$(PAGE_FILES))
	cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability,performance \
	    --inline-suppr --suppress=missingIncludeSystem -D_GNU_SOURCE -D__x86_64__ -Ilib -Iserver \
	    $(filter -I%,$(SERVER_CFLAGS)) $(LIB_SRC) $(MPI_SRC) $(SERVER_SRC) server/main.c
	printf '%s\n' $(LIB_SRC) $(SERVER_SRC) server/main.c | xargs -P $(JOBS) -n 1 sh -c \
	    'clang-tidy --quiet --warnings-as-errors="*" "$$@" -- $(FLAGS) -Ilib -Iserver $(SERVER_CFLAGS)' sh
	$(if $(MPI),clang-tidy --quiet --warnings-as-errors='*' $(MPI_SRC) -- $(FLAGS) -Ilib -Iserver $(MPI_CFLAGS))

bench: $(BENCHES) $(PEERS) $(DAEMON) ## what things cost; not part of the tests
	@for program in $(BENCHES); do echo "== $$program"; $$program || exit 1; done

exactness: $B/tests/bench/bench_exactness ## how far from the truth; the tables of lib/PERFORMANCE.md
	@$<

# What is pasted says once where it comes from; WORDS are those that the names of rows must have, "2 threads" too.
PASSES := $(addprefix $B/tests/bench/,load_vectors load_gguf)
MEASURING := $(filter-out $(PASSES) %/load_equal,$(LOADS))

bench-quick: $B/tests/bench/bench_attention $(PASSES) $(PEERS) $(DAEMON) ## kernels and whole passes beside their peers, with the machine, for pasting; ten minutes
	@$< --quick
	@for program in $(PASSES); do BENCH_HEAD=no $$program quick $(WORDS) || exit 1; done

bench-pass: $(PASSES) $(PEERS) $(DAEMON) ## every whole pass: BERT, MiniLM, Qwen3, Llama, all types, 1 and 2 threads; hours, or the rows that WORDS pick
	@head=; for program in $(PASSES); do BENCH_HEAD=$$head $$program $(WORDS) || exit 1; head=no; done

bench-load: $(MEASURING) $(PEERS) $B/tests/bench/rival_cjson $(DAEMON) ## the daemon under load, and beside it what people write otherwise
	@for program in $(MEASURING); do echo "== $$program"; $$program || exit 1; done

$B/tests/bench/rival_cjson: %: %.o
	$(call say,LINK,$@)
	$Q $(CC) $(FLAGS) $^ $(LDFLAGS) $(SERVER_LIBS) -o $@

$(PEERS): %: %.o $B/tests/bench/peer_main.o
	$(call say,LINK,$@)
	$Q $(CC) $(FLAGS) $^ $(LDFLAGS) $(if $(findstring onednn,$@),-ldnnl,$(call package,--libs openblas) -lpthread) -lm -o $@

fuzz: ## each fuzz target for FUZZ_SECONDS=60, with clang's libFuzzer
	@$(MAKE) --no-print-directory -j$(JOBS) CC=clang BUILD=$(BUILD)/fuzz \
	    SANITIZE=fuzzer-no-link,address,undefined fuzz-programs
	@for name in $(FUZZ_SRC:tests/fuzz/fuzz_%.c=%); do \
	    mkdir -p $(BUILD)/fuzz/corpus/$$name && \
	    $(BUILD)/fuzz/fuzz_$$name -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	        -artifact_prefix=$(BUILD)/fuzz/ $(BUILD)/fuzz/corpus/$$name tests/fuzz/corpus/$$name \
	        || exit 1; done

fuzz-programs: $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/%)
$(BUILD)/fuzz_%: $B/tests/fuzz/fuzz_%.o $(TEST_LINKED)
	$Q $(FUZZ_LINK) $^ $(LDFLAGS) $(TEST_LIBS) -o $@

# Fuzzing services (.clusterfuzzlite/) bring an engine, which is C++.
FUZZ_LINK = $(if $(LIB_FUZZING_ENGINE),$(CXX) $(CXXFLAGS) $(SANITIZER) $(LIB_FUZZING_ENGINE),$(CC) $(FLAGS) -fsanitize=fuzzer)

# ------------------------------------------------------------------------------------ the rest --

VERSION = $(shell sed -n 's/^\#define ATTND_VERSION "\(.*\)"$$/\1/p' server/base/version.h)
MANDIR := $(PREFIX)/share/man
COMPLETIONDIR := $(PREFIX)/share/bash-completion/completions
EXAMPLE_MODEL := stories260K
EXAMPLEDIR    := $(PREFIX)/share/attnd/models/$(EXAMPLE_MODEL)
EXAMPLE_FILES := $(filter-out %.md,$(wildcard examples/models/$(EXAMPLE_MODEL)/*))

install: daemon install-library ## to DESTDIR, PREFIX=/usr/local, LIBDIR: the daemon, its page of `man attnd`, its completion of bash, its systemd units and an example model, the library
	install -D -m 755 $(DAEMON) $(DESTDIR)$(PREFIX)/bin/attnd
	install -d $(addprefix $(DESTDIR),$(UNITDIR) $(MANDIR)/man1 $(COMPLETIONDIR))
	server/make-man $(DAEMON) > $(DESTDIR)$(MANDIR)/man1/attnd.1
	server/make-completion $(DAEMON) > $(DESTDIR)$(COMPLETIONDIR)/attnd
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' deploy/systemd/attnd.service \
	    > $(DESTDIR)$(UNITDIR)/attnd.service
	install -m 644 deploy/systemd/attnd.socket $(DESTDIR)$(UNITDIR)/attnd.socket
	install -D -m 644 -t $(DESTDIR)$(EXAMPLEDIR) $(EXAMPLE_FILES)
	@$(if $(and $(filter /usr/%,$(UNITDIR)),$(if $(DESTDIR),,here)),echo 'To have it as a service root runs:' \
	    'systemctl daemon-reload && systemctl enable --now attnd; its models lie in /var/lib/attnd/models')

# The loader finds a new library in the folders that ldconfig knows once ldconfig has run. A package's own scripts do
# that for what is installed below DESTDIR.
define tell_loader
@[ -z '$(DESTDIR)' ] || exit 0; PATH="$$PATH:/usr/sbin:/sbin"; \
if ! ldconfig -N -X -v 2>/dev/null | grep -q '^$(LIBDIR):'; then \
    echo 'The loader does not look in $(LIBDIR): programs find libattn.so.1 with LD_LIBRARY_PATH=$(LIBDIR),'; \
    echo 'or, as root, after: echo $(LIBDIR) >/etc/ld.so.conf.d/attn.conf && ldconfig'; \
elif [ "$$(id -u)" = 0 ]; then ldconfig; \
else echo 'Programs find libattn.so.1 when root has run: ldconfig'; fi
endef

install-library: library ## to the same: libattn.so, its headers, attn.pc for pkg-config and the page of `man attn`
	install -d $(addprefix $(DESTDIR),$(LIBDIR)/pkgconfig $(PREFIX)/include/attn $(MANDIR)/man3)
	install -m 644 $(LIBRARY) $(DESTDIR)$(LIBDIR)/$(notdir $(LIBRARY))
	ln -sf $(notdir $(LIBRARY)) $(DESTDIR)$(LIBDIR)/libattn.so
	install -m 644 $(wildcard lib/*.h) $(DESTDIR)$(PREFIX)/include/attn
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' lib/attn.pc.in \
	    > $(DESTDIR)$(LIBDIR)/pkgconfig/attn.pc
	lib/make-man $(VERSION) > $(DESTDIR)$(MANDIR)/man3/attn.3
	$(tell_loader)

uninstall: ## removes what `make install` with the same DESTDIR, PREFIX and LIBDIR has put there
	rm -f $(addprefix $(DESTDIR),$(PREFIX)/bin/attnd $(UNITDIR)/attnd.service $(UNITDIR)/attnd.socket \
	    $(LIBDIR)/$(notdir $(LIBRARY)) $(LIBDIR)/libattn.so $(LIBDIR)/pkgconfig/attn.pc $(MANDIR)/man1/attnd.1 $(MANDIR)/man3/attn.3 \
	    $(COMPLETIONDIR)/attnd $(EXAMPLE_FILES:examples/%=$(PREFIX)/share/attnd/%) \
	    $(patsubst lib/%,$(PREFIX)/include/attn/%,$(wildcard lib/*.h)))
	-rmdir $(DESTDIR)$(PREFIX)/include/attn
	-rmdir $(addprefix $(DESTDIR)$(PREFIX)/share/attnd,/models/$(EXAMPLE_MODEL) /models /) 2>/dev/null

python: $(BUILD)/attnd.py ## lib/python as one file that can be copied, at build/attnd.py; `pip install ./lib/python` installs it
	@echo $<

$(BUILD)/attnd.py: $(wildcard lib/python/*.py lib/python/attnd/*.py)
	$Q mkdir -p $(@D)
	$Q python3 lib/python/build_package.py > $@.new && mv $@.new $@

deb: ## install what is missing, build, make Debian packages of the daemon and the library, at build/deb/; DEBFULLNAME and DEBEMAIL name their maintainer, whom RELEASE=yes demands
	@deploy/install-packages.sh build deb
	@$(MAKE) --no-print-directory -j$(JOBS) daemon library
	@RELEASE=$(RELEASE) deploy/make-deb.sh $(BUILD)/deb $(DAEMON) $(LIBRARY)

dist: daemon ## the release at build/dist/: the last commit as a tarball, what is linked in, what it was built with, the sums; SIGN=minisign:FILE or gpg:KEY signs them
	@deploy/make-dist.sh $(BUILD)/dist $(DAEMON) $(SIGN)

verify: ## is a release what it says? DIST=build/dist: its sums, its signature (PUBLIC=minisign:FILE), the program built anew from its sources
	@deploy/verify-dist.sh $(or $(DIST),$(BUILD)/dist) $(PUBLIC)

compdb: ## compile_commands.json, for editors and clang tools
	@$(MAKE) --no-print-directory -Bn V=1 programs | awk -v folder='$(CURDIR)' \
	    'match($$0, / -c [^ ]+\.c /) { printf "%s\n{\"directory\":\"%s\",\"command\":\"%s\",\"file\":\"%s\"}", \
	         n++ ? "," : "[", folder, $$0, substr($$0, RSTART + 4, RLENGTH - 5) } \
	     END { print "\n]" }' > compile_commands.json

clean: ## remove build/
	rm -rf $(BUILD) compile_commands.json

help: ## this
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

.DEFAULT_GOAL := daemon
.PHONY: attn-mpi mpi-missing daemon run serve story test test-tools test-sanitized check programs inner-programs threaded-programs check-twin check-equal check-page pictures check-long check-aarch64 check-layers check-pages check-licences check-abi keep-abi abi-library coverage coverage-programs lint sbom check-reproducible reference bench bench-quick bench-pass bench-load exactness fuzz fuzz-programs library install install-library uninstall python deb dist verify compdb \
        clean help FORCE
.SECONDARY:
# What the objects of tests depend on takes make twice as long to read as all else, and is no part of these.
WITHOUT_TESTS := daemon library install install-library uninstall run serve story python deb reference sbom help clean
-include $(shell find $(if $(filter-out $(WITHOUT_TESTS),$(or $(MAKECMDGOALS),daemon)),$B,$B/lib $B/server) -name '*.d' 2>/dev/null)
