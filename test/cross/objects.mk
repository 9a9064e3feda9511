# objects.mk - one program for one processor: make -f objects.mk CC=COMPILER OUT=FOLDER FLAGS='...' SOURCES='...'
objects := $(patsubst %,$(OUT)/%.o,$(SOURCES))

$(OUT)/program: $(objects)
	$(CC) $(FLAGS) $^ -lm -o $@

$(OUT)/%.o: %
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -MMD -c $< -o $@

-include $(objects:.o=.d)
